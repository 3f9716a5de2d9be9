"""Bad input: each is a 4xx problem that names field, value and rule, and nothing is queued."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from api_rig import SPEC, TRAIN, Api, train_with


@pytest.fixture(autouse=True)
def nothing_is_queued(api: Api) -> Iterator[None]:
    yield
    assert api.queued() == 0
    assert api.http.get("/v1/jobs").json()["data"] == []


def gpt(**changes: Any) -> dict[str, Any]:
    return train_with(model={"name": "gpt", **changes})


BAD_FIELDS = {
    "unknown kind": ({"kind": "mine", "spec": {}}, "kind", "'mine'", "must be one of train, sample"),
    "no kind": ({"spec": {}}, "kind", "missing", "must be given"),
    "unknown field beside the spec": ({**TRAIN, "speed": 1}, "speed", "1", "is not a field here"),
    "unknown field": (train_with(speed=1), "spec.speed", "1", "is not a field here"),
    "unknown field of the model": (gpt(depth=2), "spec.model.depth", "2", "is not a field here"),
    "unknown model": (train_with(model={"name": "x"}), "spec.model.name", "'x'", "must be one of"),
    "no model": (
        {"kind": "train", "spec": {"corpus": {"text": "a"}}},
        "spec.model",
        "missing",
        "must be given",
    ),
    "batch of a billion": (train_with(batch=10**9), "spec.batch", "1000000000", "must be at most 4096"),
    "batch of a giant": (train_with(batch=10**400), "spec.batch", "", "must be"),
    "no steps": (train_with(steps=0), "spec.steps", "0", "must be at least 1"),
    "steps as text": (train_with(steps="10"), "spec.steps", "'10'", "must be an integer"),
    "steps as a fraction": (train_with(steps=1.5), "spec.steps", "1.5", "integer"),
    "lr of zero": (train_with(lr=0), "spec.lr", "0", "must be greater than 0"),
    "unknown optimizer": (train_with(optimizer="magic"), "spec.optimizer", "'magic'", "must be 'adamw'"),
    "sequence longer than the text": (
        train_with(model={"name": "bigram", "seq_len": 5000}),
        "spec.model.seq_len",
        "5000",
        "must be shorter than the text, which has 800 characters",
    ),
    "empty text": (train_with(corpus={"text": ""}), "spec.corpus.text", "''", "must not be empty"),
    "text beyond 2 MiB": (
        train_with(corpus={"text": "é" * 2**20 + "é"}),
        "spec.corpus.text",
        "bytes",
        "at most",
    ),
    "two corpora": (
        train_with(corpus={"text": "a", "name": "shakespeare"}),
        "spec.corpus",
        "",
        "exactly one",
    ),
    "unknown corpus": (train_with(corpus={"name": "bible"}), "spec.corpus.name", "'bible'", "must be"),
    "unknown file": (train_with(corpus={"file": "file_x"}), "spec.corpus.file", "'file_x'", "uploaded file"),
    "heads that don't divide": (gpt(num_heads=3), "spec.model.embed_dim", "128", "multiple of num_heads"),
    "a model too large": (gpt(embed_dim=8192, num_layers=100), "spec", "parameters", "at most 2e+08"),
    "unknown sample model": (
        {"kind": "sample", "spec": {"model": "nobody"}},
        "spec.model",
        "'nobody'",
        "must be the id or alias of a model",
    ),
    "priority": ({**TRAIN, "priority": 11}, "priority", "11", "must be at most 10"),
    "metadata": ({**TRAIN, "metadata": {"a": 1}}, "metadata.a", "1", "must be a string"),
    "name": ({**TRAIN, "name": "n" * 129}, "name", "n", "must have at most 128 characters"),
    "alias": (train_with(publish_as="No Spaces"), "spec.publish_as", "'No Spaces'", "must match"),
}


@pytest.mark.parametrize("body, param, value, rule", BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_a_bad_field_is_named_with_its_value_and_rule(
    api: Api, body: dict[str, Any], param: str, value: str, rule: str
) -> None:
    answer = api.http.post("/v1/jobs", json=body)
    problem = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert problem["param"] == param
    assert value in problem["errors"][0]["value"]
    assert rule in problem["errors"][0]["rule"]
    assert problem["detail"].startswith(f"{param} is ")
    assert problem["error"] == {
        "message": problem["detail"],
        "type": "invalid_request_error",
        "param": param,
        "code": problem["code"],
    }


@pytest.mark.parametrize("field", ["lr", "checkpoint_every_s", "clip_norm"])
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(api: Api, field: str, number: str) -> None:
    text = json.dumps(train_with(**{field: 0})).replace(f'"{field}": 0', f'"{field}": {number}')
    answer = api.http.post("/v1/jobs", content=text.encode(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert (answer.json()["param"], answer.json()["errors"][0]["rule"]) == (
        f"spec.{field}",
        "must be a finite number",
    )


BAD_JSON = {
    "nothing": b"",
    "half": b'{"kind": "train", "spec": {',
    "not utf-8": b'{"kind": "\xff"}',
    "lone surrogate": b'{"kind": "\\ud800", "spec": {}}',
    "deep": b'{"kind":"train","spec":' + b'{"a":' * 100_000,
    "deep and closed": b'{"kind":"train","spec":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "a giant number": b'{"kind":"train","spec":{"steps":' + b"1" * 5000 + b"}}",
    "a list": b"[]",
    "two values": b"{} {}",
}


@pytest.mark.parametrize("body", BAD_JSON.values(), ids=BAD_JSON)
def test_a_bad_body_is_a_problem(api: Api, body: bytes) -> None:
    answer = api.http.post("/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["errors"][0].keys() == {"param", "value", "rule", "message"}


def test_another_content_type_is_refused(api: Api) -> None:
    answer = api.http.post("/v1/jobs", content=b"kind: train", headers={"Content-Type": "text/yaml"})
    assert (answer.status_code, answer.json()["param"]) == (415, "Content-Type")


def test_packed_bodies_are_refused(api: Api) -> None:
    answer = api.http.post("/v1/jobs", json=TRAIN, headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()["param"]) == (415, "Content-Encoding")


def test_a_body_beyond_the_limit_is_refused_however_it_is_sent(api: Api) -> None:
    body = json.dumps({**TRAIN, "metadata": {"a": "x" * 5_000_000}}).encode()

    def parts() -> Iterator[bytes]:
        yield from (body[start : start + 65_536] for start in range(0, len(body), 65_536))

    for content in (body, parts()):
        answer = api.http.post("/v1/jobs", content=content)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
        (error,) = answer.json()["errors"]
        assert (error["param"], error["rule"]) == ("body", "must have at most 4194304 bytes")
        assert "bytes long" in error["value"]


@pytest.mark.parametrize(
    "path, param",
    [
        ("/v1/jobs?limit=0", "limit"),
        ("/v1/jobs?limit=101", "limit"),
        ("/v1/jobs?limit=x", "limit"),
        ("/v1/jobs?order=up", "order"),
        ("/v1/jobs?kind=mine", "kind"),
        ("/v1/files?limit=1000", "limit"),
        ("/v1/models?order=x", "order"),
        ("/v1/jobs?after=xyz", "after"),
        ("/v1/files?after=xyz", "after"),
        ("/v1/models?after=job_06avh5s1c8e73p2r4n9k0xw5tz", "after"),
    ],
)
def test_a_bad_parameter_is_named(api: Api, path: str, param: str) -> None:
    answer = api.http.get(path)
    assert (answer.status_code, answer.json()["param"]) == (422, param)


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("GET", "/v2/jobs", 404),
        ("GET", "/v1/nothing", 404),
        ("POST", "/v1/nothing", 404),
        ("POST", "/v1/chat/completions", 404),
        ("DELETE", "/nothing", 404),
        ("PUT", "/v1/jobs", 405),
        ("GET", "/v1/completions", 405),
        ("POST", "/", 405),
    ],
)
def test_unknown_paths_and_methods_are_problems(api: Api, method: str, path: str, status: int) -> None:
    answer = api.http.request(method, path)
    assert (answer.status_code, answer.json()["status"]) == (status, status)


@pytest.mark.parametrize("given", ["", "x" * 256, "with space", "é"])
def test_a_bad_idempotency_key_is_refused(api: Api, given: str) -> None:
    headers = {"Idempotency-Key": given.encode()}
    answer = api.http.post("/v1/jobs", json=TRAIN, headers=headers)
    assert (answer.status_code, answer.json()["param"]) == (422, "Idempotency-Key")


def test_the_spec_is_checked_with_all_its_errors_at_once(api: Api) -> None:
    problem = api.http.post("/v1/jobs", json={"kind": "train", "spec": {**SPEC, "steps": 0, "lr": -1}}).json()
    assert {error["param"] for error in problem["errors"]} == {"spec.steps", "spec.lr"}


@pytest.mark.parametrize(
    "path, param",
    [
        ("/v1/jobs?status=failed", "status"),
        ("/v1/jobs?state=failed&metadata=x", "metadata"),
        ("/v1/jobs?state[x]=failed", "state[x]"),
        ("/v1/models?name=x", "name"),
        ("/healthz?x=", "x"),
    ],
)
def test_a_parameter_that_is_not_known_selects_nothing_silently(api: Api, path: str, param: str) -> None:
    answer = api.http.get(path)
    assert (answer.status_code, answer.json()["param"]) == (422, param)


STOP = "must be a string or must be a list"
UNIONS: dict[str, tuple[str, dict[str, Any], list[tuple[str, str]]]] = {
    "no form fits": ("completions", {"stop": 5}, [("stop", STOP)]),
    "an entry of a list": ("completions", {"stop": ["a", 5]}, [("stop.1", "must be a string")]),
    "a long entry": (
        "completions",
        {"stop": ["a" * 257]},
        [("stop.0", "must have at most 256 characters")],
    ),
    "a long list": (
        "completions",
        {"stop": ["a"] * 5},
        [("stop", "must be a string or must have at most 4")],
    ),
    "an object for a text": ("completions", {"stop": {"str": 1}}, [("stop", STOP)]),
    "only one value": ("completions", {"echo": True}, [("echo", "leave it out, or give false")]),
    "no object": ("completions", {"stream_options": 3}, [("stream_options", "must be an object")]),
    "nothing or a number": ("completions", {"logprobs": "1"}, [("logprobs", "must be an integer")]),
    "the name of a member": (
        "jobs",
        {**TRAIN, "metadata": {"": "x"}},
        [("metadata.", "at least 1 characters")],
    ),
    "a member's value": ("jobs", {**TRAIN, "metadata": {"a": ["x"]}}, [("metadata.a", "must be a string")]),
    "the name of an input": (
        "compile",
        {"expression": "a", "inputs": {"9": {"shape": [1]}}},
        [("inputs.9", "must match")],
    ),
    "a size of an input": (
        "compile",
        {"expression": "a", "inputs": {"a": {"shape": [1, "x"]}}},
        [("inputs.a.shape.1", "must be an integer")],
    ),
    "one kind of several": ("jobs", gpt(depth=2), [("spec.model.depth", "is not a field here")]),
    "a member called as the kind": (
        "jobs",
        gpt(gpt={"depth": 2}, depth=1),
        [("spec.model.gpt", "is not a field here"), ("spec.model.depth", "is not a field here")],
    ),
    "no kind": ("jobs", train_with(model={"seq_len": 8}), [("spec.model.name", "must be given")]),
    "what is missing inside": ("jobs", train_with(corpus=None), [("spec.corpus", "must be an object")]),
}


@pytest.mark.parametrize("path, body, expected", UNIONS.values(), ids=UNIONS)
def test_a_field_of_several_forms_is_named_as_its_sender_knows_it(
    api: Api, path: str, body: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    if path == "completions":
        body = {"model": "m", **body}
    answer = api.http.post(f"/v1/{path}", json=body)
    assert answer.status_code == 422, answer.text
    errors = answer.json()["errors"]
    assert [error["param"] for error in errors] == [param for param, _ in expected]
    for error, (_, rule) in zip(errors, expected, strict=True):
        assert rule in error["rule"]


REPEATED = {
    "of the body": (b'{"kind": "train", "kind": "sample", "spec": {}}', ["kind"]),
    "inside": (b'{"kind": "train", "spec": {"steps": 1, "model": {"name": 1, "name": 2}, "steps": 2}}', None),
    "in a list": (b'{"kind": "x", "spec": {"a": [1, {"b": 1, "c": {}, "b": 1}]}}', ["spec.a.1.b"]),
    "written otherwise": (b'{"kind": "x", "sp\\u0065c": {}, "spec": {}}', ["spec"]),
    "three times": (b'{"kind": "x", "spec": {"a": 1, "a": 1, "a": 1}}', ["spec.a", "spec.a"]),
    "beside a long number": (b'{"kind": "x", "spec": {"a": 1, "a": %s}}' % (b"9" * 4300), ["spec.a"]),
}


@pytest.mark.parametrize("body, params", REPEATED.values(), ids=REPEATED)
def test_a_member_that_is_named_twice_is_refused(api: Api, body: bytes, params: list[str] | None) -> None:
    answer = api.http.post("/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "invalid-field")
    assert [error["param"] for error in problem["errors"]] == (params or ["spec.steps", "spec.model.name"])
    assert problem["detail"].startswith(f"{problem['param']} is given again: must be given once")


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/price", "/v1/compile", "/v1/keys"])
def test_every_body_names_its_members_once(api: Api, path: str) -> None:
    body = {
        "/v1/completions": b'{"model": "a", "model": "b"}',
        "/v1/price": b'{"S": 1, "S": 2}',
        "/v1/compile": b'{"preset": "forge", "preset": "forge"}',
        "/v1/keys": b'{"name": "a", "name": "b"}',
    }[path]
    answer = api.http.post(path, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["errors"][0]["rule"]) == (422, "must be given once")


LONG = "x" * 100_000


@pytest.mark.parametrize(
    "path, body",
    [
        ("/v1/jobs", {**TRAIN, LONG: 1}),
        ("/v1/jobs", {**TRAIN, "spec": {**SPEC, "model": {"name": LONG}}}),
        ("/v1/jobs", {**TRAIN, "spec": {f"{LONG}{i}": 1 for i in range(30)}}),
        ("/v1/jobs", {**TRAIN, "metadata": {LONG: "x", "a": LONG}}),
        ("/v1/jobs", {"kind": LONG, "spec": {}}),
        ("/v1/price", {"instrument": LONG, LONG: 1}),
        ("/v1/compile", {"expression": "a" * 9000, "inputs": {}}),
        ("/v1/compile", {"graph": {LONG: LONG}}),
        ("/v1/completions", {"model": "m", "stop": [LONG], LONG: LONG}),
        ("/v1/aliases/a", {"model": LONG}),
    ],
)
def test_a_refusal_does_not_grow_with_what_it_refuses(api: Api, path: str, body: dict[str, Any]) -> None:
    answer = api.http.request("PUT" if "aliases" in path else "POST", path, json=body)
    assert 400 <= answer.status_code < 500
    assert len(answer.content) < 20_000
    assert all(len(error["param"]) < 250 for error in answer.json()["errors"])


def test_names_in_a_path_or_query_are_cut_too(api: Api) -> None:
    long = "x" * 30_000
    for path in (
        f"/v1/jobs/{long}",
        f"/v1/models/{long}",
        f"/v1/jobs?{long}=1",
        f"/v1/jobs?name={long}",
        f"/{long}",
        f"/a%00{long}",
    ):
        answer = api.http.get(path)
        assert 400 <= answer.status_code < 500
        assert len(answer.content) < 12_000, path[:20]
