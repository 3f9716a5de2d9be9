"""Whatever is wrong with a body, the rule that an answer names is one of ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import BaseModel, ValidationError

from service.api.problems import RULES
from service.api.routes.aliases import AliasRequest
from service.api.routes.completions import CompletionRequest
from service.api.routes.keys import KeyRequest
from service.api.submit import JobRequest
from service.specs import KINDS

BODIES = [*(kind.spec for kind in KINDS.values()), JobRequest, CompletionRequest, KeyRequest, AliasRequest]
STRANGE = [
    *(
        "null",
        "true",
        "1.5",
        "-1",
        "NaN",
        "1e400",
        "1" + "0" * 400,
        '""',
        '"x"',
        '"\\u0000"',
        f'"{"a" * 70_000}"',
    ),
    *("[]", '["a", 1]', "[[]]", "[" + ",".join(['"a"'] * 100) + "]", "{}", '{"a": 1}', '{"name": 3}'),
    '{"name": "gpt", "embed_dim": "x", "seq_len": null, "other": 1}',
    f'{{"{"k" * 100}": "{"v" * 600}"}}',
]


def errors(model: type[BaseModel], body: str) -> Iterator[str]:
    """The types of what is wrong with a body."""
    try:
        model.model_validate_json(body)
    except ValidationError as error:
        yield from (each["type"] for each in error.errors(include_url=False))


@pytest.mark.parametrize("model", BODIES)
def test_every_mistake_has_a_rule_in_our_words(model: type[BaseModel]) -> None:
    found = {type_ for body in STRANGE for type_ in errors(model, body)}
    for name in model.model_fields:
        found |= {type_ for value in STRANGE for type_ in errors(model, f'{{"{name}": {value}}}')}
    assert {"missing", "extra_forbidden"} & found
    assert found <= RULES.keys()
