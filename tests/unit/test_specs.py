"""Specs: what is read, what it costs, what is refused before anything is queued."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from engine.data.corpora import decode_text, load_corpus
from engine.models.config import read_config
from service.api.uploads import TextCheck
from service.errors import InvalidFieldsError
from service.jobs.lanes import BATCH, QUICK
from service.specs import KINDS, ModelFacts, Prepared, TextFacts, text_facts
from service.specs.limits import CAPS, check_caps
from service.specs.train import NAMED, Train

TEXT = "the quick brown fox jumps over the lazy dog " * 30
BODY: dict[str, Any] = {"model": {"name": "gpt"}, "corpus": {"text": TEXT}}


class Shelf:
    """A catalogue with one file and three models, of which one says its characters."""

    async def file(self, file_id: str) -> TextFacts | None:
        return TextFacts("b" * 64, 100, "abc") if file_id == "file_1" else None

    async def model(self, name: str) -> ModelFacts | None:
        parameters = {"small": 1000, "large": 10**8, "abc": 1000}.get(name)
        alphabet = "abc" if name == "abc" else None
        return None if parameters is None else ModelFacts("model_1", "a" * 64, parameters, alphabet)


def prepare(kind: str, body: dict[str, Any]) -> Prepared:
    read = KINDS[kind].spec.model_validate(body)
    return asyncio.run(KINDS[kind].prepare(read, Shelf()))


def train(**changes: Any) -> Prepared:
    return prepare("train", {**BODY, **changes})


def refusal(kind: str, body: dict[str, Any]) -> InvalidFieldsError:
    with pytest.raises(InvalidFieldsError) as caught:
        prepare(kind, body)
    return caught.value


def test_defaults_are_written_out() -> None:
    spec = train().spec
    assert spec["model"]["embed_dim"] == 128
    assert (spec["batch"], spec["seed"], spec["checkpoint_every_s"], spec["publish_as"]) == (
        32,
        0,
        20.0,
        None,
    )


def test_the_prepared_spec_can_be_prepared_again() -> None:
    once = train(corpus={"name": "shakespeare"})
    assert prepare("train", dict(once.spec)).spec == once.spec


def test_the_demo_model_has_the_parameters_that_its_configuration_counts() -> None:
    assert train(corpus={"name": "shakespeare"}).estimate["parameters"] == 550_720
    assert train(corpus={"name": "tinyshakespeare"}).estimate["parameters"] == 550_977


@pytest.mark.parametrize("name", ["gpt", "bigram", "mlp"])
def test_every_model_of_a_spec_is_one_of_the_engine(name: str) -> None:
    prepared = train(model={"name": name})
    config = read_config(prepared.spec["model"], vocab_size=text_facts(TEXT).vocabulary)
    assert prepared.estimate["parameters"] == config.parameter_count()
    assert prepared.estimate["step_flops"] == config.step_flops(32)
    assert prepared.estimate["flops"] == 1000 * config.step_flops(32)


@given(steps=st.integers(1, 1000), batch=st.integers(1, 64))
def test_cost_grows_with_steps_and_batch(steps: int, batch: int) -> None:
    less, more = train(steps=steps, batch=batch).estimate, train(steps=steps + 1, batch=batch + 1).estimate
    assert less["flops"] < more["flops"]
    assert less["memory_bytes"] < more["memory_bytes"]
    assert less["parameters"] == more["parameters"]


def test_the_named_corpora_have_the_facts_that_the_table_says(shared: Path) -> None:
    texts = {
        "shakespeare": load_corpus("shakespeare"),
        "tinyshakespeare": (shared / "data" / "tinyshakespeare.txt").read_text("utf-8"),
    }
    assert texts.keys() == NAMED.keys()
    for name, text in texts.items():
        assert (NAMED[name].characters, NAMED[name].alphabet) == (len(text), "".join(sorted(set(text))))


@given(st.text(alphabet="a\r\n\ufeffé"))
def test_facts_are_those_of_the_text_that_the_worker_reads(text: str) -> None:
    facts = text_facts(text)
    read = decode_text(text.encode()) if text else ""
    assert (facts.characters, facts.alphabet) == (len(read), "".join(sorted(set(read))))
    check = TextCheck()
    for byte in text.encode():
        check.feed(bytes([byte]))
    check.feed(b"", final=True)
    assert (check.characters, check.alphabet) == (facts.characters, facts.alphabet)


@pytest.mark.parametrize(
    "corpus, good, bad",
    [
        ({"text": TEXT}, ["the ", "\n"], "The dog"),
        ({"file": "file_1"}, ["cab"], "d"),
        ({"name": "shakespeare"}, ["ROMEO:"], "Act 1"),
        ({"name": "tinyshakespeare"}, ["3"], "Act 1"),
    ],
)
def test_a_prompt_must_have_the_characters_of_the_text(
    corpus: dict[str, str], good: list[str], bad: str
) -> None:
    assert train(corpus=corpus, prompts=good).spec["prompts"] == good
    problem = refusal("train", {**BODY, "corpus": corpus, "prompts": [*good, bad]})
    assert [error.param for error in problem.errors] == [f"spec.prompts.{len(good)}"]
    assert repr(bad) in problem.detail


def test_a_prompt_must_have_the_characters_of_the_model_where_they_are_known() -> None:
    assert prepare("sample", {"model": "abc", "prompt": "cab"})
    assert prepare("sample", {"model": "abc"}).spec["prompt"] == "\n"
    assert prepare("sample", {"model": "small", "prompt": "Zoë"})
    error = refusal("sample", {"model": "abc", "prompt": "abcd\n"}).errors[0]
    assert error.param == "spec.prompt"
    assert error.rule.endswith("lacks '\\n', 'd'")


@pytest.mark.parametrize("optimizer", get_args(Train.model_fields["optimizer"].annotation))
def test_a_momentum_is_for_sgd_alone(optimizer: str) -> None:
    assert train(optimizer=optimizer)
    if optimizer == "sgd":
        assert train(optimizer=optimizer, momentum=0.5)
    else:
        problem = refusal("train", {**BODY, "optimizer": optimizer, "momentum": 0.5})
        assert (problem.param, problem.errors[0].value) == ("spec.momentum", "0.5")


def test_the_estimated_time_counts_evaluations_and_samples() -> None:
    rarely = train(eval_every=0, sample_every=0).estimate["seconds"]
    assert train(eval_every=1, sample_every=0).estimate["seconds"] > rarely
    assert train(eval_every=0, sample_every=1).estimate["seconds"] > rarely
    assert train(eval_every=0, sample_every=0, steps=2000).estimate["seconds"] > 1.9 * rarely


def test_a_text_becomes_a_blob() -> None:
    prepared = train()
    (name,) = prepared.blobs
    assert prepared.spec["corpus"] == {"blob": name}
    assert prepared.blobs[name].decode() == TEXT
    assert prepared.lane == BATCH


def test_a_file_stands_for_its_blob() -> None:
    prepared = train(corpus={"file": "file_1"})
    assert prepared.spec["corpus"] == {"file": "file_1", "blob": "b" * 64}
    assert prepared.blobs == {}


@pytest.mark.parametrize("characters, fits", [(66, True), (65, False), (32, False), (1, False)])
def test_the_text_must_hold_a_window_to_train_on_and_one_to_evaluate(characters: int, fits: bool) -> None:
    body = {**BODY, "corpus": {"text": "x" * characters}}
    if fits:
        assert prepare("train", body)
    else:
        error = refusal("train", body).errors[0]
        assert (error.param, error.value) == ("spec.model.seq_len", "32")


@pytest.mark.parametrize(
    "corpus, param",
    [
        ({"text": ""}, "spec.corpus.text"),
        ({"file": "file_2"}, "spec.corpus.file"),
        ({"text": "é" * (2**20 + 1)}, "spec.corpus.text"),
    ],
)
def test_a_corpus_that_cannot_be_used_is_named(corpus: dict[str, str], param: str) -> None:
    assert refusal("train", {**BODY, "corpus": corpus}).param == param


@pytest.mark.parametrize(
    "corpus", [{}, {"text": "a", "name": "shakespeare"}, {"name": "x"}, {"url": "http://x"}]
)
def test_a_corpus_is_exactly_one_thing(corpus: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        prepare("train", {**BODY, "corpus": corpus})


BODIES: dict[str, dict[str, Any]] = {
    "train": BODY,
    "sample": {"model": "small"},
    "compile": {"preset": "forge"},
}
NUMBERS = [
    (kind, name)
    for kind, row in KINDS.items()
    for name, field in row.spec.model_fields.items()
    if field.annotation in (int, float, int | None, float | None)
]


@pytest.mark.parametrize("kind, name", NUMBERS)
@pytest.mark.parametrize(
    "value", [10**30, -(10**30), math.nan, math.inf, -math.inf, "1", True, [], None.__class__]
)
def test_every_number_has_bounds_and_a_type(kind: str, name: str, value: Any) -> None:
    body = {**BODIES[kind], name: value}
    with pytest.raises(ValidationError) as caught:
        KINDS[kind].spec.model_validate(body)
    assert {error["loc"][0] for error in caught.value.errors()} == {name}


@pytest.mark.parametrize(
    "fields, rule",
    [
        ({"embed_dim": 128, "num_heads": 3}, "must be a multiple of num_heads (3)"),
        (
            {"embed_dim": 128, "num_heads": 128, "positions": "rotary"},
            "must be num_heads (128) times",
        ),
    ],
)
def test_fields_of_a_model_that_do_not_fit_each_other_are_named(fields: dict[str, Any], rule: str) -> None:
    error = refusal("train", {**BODY, "model": {"name": "gpt", **fields}}).errors[0]
    assert (error.param, error.value) == ("spec.model.embed_dim", "128")
    assert error.rule.startswith(rule)


@pytest.mark.parametrize("model", ["gpt", "bigram", "mlp"])
@pytest.mark.parametrize("value", [0, -1, 10**9, 1.5, "8"])
def test_every_size_of_a_model_has_bounds(model: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        prepare("train", {**BODY, "model": {"name": model, "seq_len": value}})


@pytest.mark.parametrize("name", CAPS)
def test_each_cap_is_kept(name: str) -> None:
    check_caps({name: CAPS[name].most})
    with pytest.raises(InvalidFieldsError) as caught:
        check_caps({name: CAPS[name].most * 1.01})
    assert CAPS[name].unit in caught.value.detail
    assert CAPS[name].remedy in caught.value.detail
    assert caught.value.code == "too-costly"


def test_a_sample_names_its_weights_and_fixes_its_seed() -> None:
    spec = prepare("sample", {"model": "small"}).spec
    assert spec["weights"] == "a" * 64
    assert isinstance(spec["seed"], int)
    assert prepare("sample", {"model": "small", "seed": 0}).spec["seed"] == 0
    assert refusal("sample", {"model": "none"}).param == "spec.model"


def test_a_long_sample_leaves_the_quick_lane() -> None:
    assert prepare("sample", {"model": "small"}).lane == QUICK
    assert prepare("sample", {"model": "large", "max_tokens": 5000}).lane == BATCH


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_nonsense_is_refused_and_never_breaks(body: Any) -> None:
    for kind in KINDS.values():
        with pytest.raises(ValidationError):
            kind.spec.model_validate(body)
