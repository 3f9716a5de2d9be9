"""The OpenAPI document: whole, and generated from the forms that are really read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from api_rig import Api

from service.ids import new_id
from service.jobs.records import key
from service.specs import KINDS


@pytest.fixture(scope="module")
def document(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.http.get("/openapi.json").json()
    return found


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    found = set(references(document))
    assert "#/components/schemas/JobRequest" in found
    for reference in found:
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]


def test_every_operation_says_what_it_does(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names)) >= 25
    for path, method, operation in operations(document):
        assert operation["summary"], (path, method)


def test_each_kind_has_its_form_with_bounds_and_descriptions(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert set(schemas["JobRequest"]["discriminator"]["mapping"]) == set(KINDS)
    for name in KINDS:
        form = schemas[f"{name.capitalize()}JobRequest"]
        assert form["additionalProperties"] is False
        assert form["properties"]["kind"]["const"] == name
        spec = schemas[form["properties"]["spec"]["$ref"].rpartition("/")[2]]
        for field, schema in spec["properties"].items():
            parts = schema.get("anyOf", [schema])
            if any(part.get("type") in ("integer", "number") for part in parts):
                bounds = {key for part in parts for key in part}
                assert bounds & {"minimum", "exclusiveMinimum"}, field
                assert bounds & {"maximum", "exclusiveMaximum"}, field
                assert schema.get("description"), field


def test_the_example_of_each_kind_is_accepted(api: Api, document: dict[str, Any]) -> None:
    record = {"id": new_id("model"), "weights": "0" * 64, "config": {"name": "bigram", "vocab_size": 65}}
    api.redis.set(key("model", record["id"]), json.dumps(record))  # type: ignore[arg-type]
    api.redis.hset(key("aliases", "*"), "bard", record["id"])  # type: ignore[arg-type]
    examples = document["components"]["schemas"]["JobRequest"]["examples"]
    assert {example["kind"] for example in examples} == set(KINDS)
    for example in examples:
        answer = api.http.post("/v1/jobs", params={"dry_run": "true"}, json=example)
        assert answer.status_code == 200, answer.text


def test_every_operation_names_its_refusals_as_problems(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        responses = operation["responses"]
        needed = {"403", "408", "421", "422", "431", "503"} | ({"401"} if path.startswith("/v1/") else set())
        needed |= {"400", "413", "415"} if "requestBody" in operation else set()
        needed |= {"404"} if "_id}" in path else set()
        assert needed <= responses.keys(), (method, path)
        for status, response in responses.items():
            assert response["description"], (method, path, status)
            if status >= "400" and status != "416":
                assert response["content"].keys() == {"application/problem+json"}, (method, path, status)
            elif status not in ("204", "304", "416"):
                assert response["content"], (method, path, status)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_links_lead_from_what_was_made_to_operations_with_its_id(document: dict[str, Any]) -> None:
    by_name = {operation["operationId"]: operation for _, _, operation in operations(document)}
    links = [
        link
        for operation in by_name.values()
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    ]
    assert len(links) >= 10
    for link in links:
        taken = {each["name"] for each in by_name[link["operationId"]]["parameters"] if each["in"] == "path"}
        assert link["parameters"].keys() == taken


def test_the_document_is_the_same_each_time(api: Api, document: dict[str, Any]) -> None:
    assert api.http.get("/openapi.json").json() == document


def test_nothing_is_loaded_from_elsewhere(api: Api) -> None:
    for path in ("/docs", "/redoc"):
        assert api.http.get(path).status_code == 404
    assert "http" not in api.http.get("/").text.replace("http-equiv", "").replace("http://www.w3.org", "")
