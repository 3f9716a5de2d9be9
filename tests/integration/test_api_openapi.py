"""The OpenAPI document: whole, and generated from the forms that are really read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from api_rig import Api

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


def test_the_document_is_the_same_each_time(api: Api, document: dict[str, Any]) -> None:
    assert api.http.get("/openapi.json").json() == document


def test_nothing_is_loaded_from_elsewhere(api: Api) -> None:
    for path in ("/docs", "/redoc"):
        assert api.http.get(path).status_code == 404
    assert "http" not in api.http.get("/").text.replace("http-equiv", "").replace("http://www.w3.org", "")
