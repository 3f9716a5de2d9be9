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
