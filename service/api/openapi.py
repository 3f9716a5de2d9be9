"""The OpenAPI document: FastAPI's, with the bodies that we read ourselves, and what all routes share.

What a single route may answer stands at the route (``answers``); here are the refusals that follow from its
path and its body, the headers of every answer, the key, and the links from what was made to what can be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, TypeAdapter, create_model
from pydantic.json_schema import models_json_schema

from service.api.answers import problem
from service.specs import KINDS
from service.wire import Problem

Json = dict[str, Any]
REFERENCE = "#/components/schemas/{model}"
METHODS = ("get", "put", "post", "patch", "delete")
REQUEST_ID = {"description": "names this request in the log", "schema": {"type": "string"}}
RETRY_AFTER = {"description": "seconds after which to try again", "schema": {"type": "integer"}}
QUOTA = {  # of an answer to what a quota may refuse; absent where none has a bound
    "RateLimit-Policy": {"description": "the caller's quotas", "schema": {"type": "string"}},
    "RateLimit": {"description": "what is left of them", "schema": {"type": "string"}},
}
ID, FIRST_ID = "$response.body#/id", "$response.body#/data/0/id"
LINKS: dict[
    str, tuple[dict[str, str], tuple[str, ...]]
] = {  # operation → what its answer gives to which others
    "create_job": (
        {"job_id": ID},
        ("get_job", "get_events", "get_logs", "get_metrics", "cancel_job", "repeat_job", "delete_job"),
    ),
    "retry_job": ({"job_id": ID}, ("get_job", "cancel_job")),
    "list_artifacts": ({"job_id": "$request.path.job_id", "artifact_id": FIRST_ID}, ("get_artifact",)),
    "upload_file": ({"file_id": ID}, ("get_file", "get_content", "delete_file")),
    "list_models": ({"name": FIRST_ID}, ("get_model", "get_model_weights", "delete_model")),
    "put_alias": ({"alias": ID}, ("delete_alias",)),
    "create_key": ({"key_id": ID}, ("get_key", "revoke_key")),
}


def json_body(name: str) -> Json:
    """The part of a route that documents a JSON body of a schema registered with ``add_openapi``."""
    schema = {"$ref": REFERENCE.format(model=name)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def job_requests(options: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """For each kind the body that creates one."""
    requests = {}
    for name, kind in KINDS.items():
        fields: Json = {"kind": (Literal[name], ...), "spec": (kind.spec, ...)}
        requests[name] = create_model(f"{name.capitalize()}JobRequest", __base__=options, **fields)
    return requests


def add_openapi(app: FastAPI, options: type[BaseModel], bodies: list[type[BaseModel]]) -> None:
    """Makes ``app.openapi`` describe ``JobRequest`` as one form a kind, other bodies by their models."""
    requests = job_requests(options)

    def document() -> Json:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            components = schema.setdefault("components", {})
            components["schemas"] = _schemas(components.get("schemas", {}), requests, bodies)
            components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            for path, method, operation in operations(schema):
                _complete(path, method, operation)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def operations(schema: Json) -> Iterator[tuple[str, str, Json]]:
    """Path, method and description of every operation."""
    for path, methods in schema["paths"].items():
        for method in METHODS:
            if method in methods:
                yield path, method, methods[method]


def _schemas(found: Json, requests: dict[str, type[BaseModel]], bodies: Iterable[type[BaseModel]]) -> Json:
    """All schemas: those that FastAPI has found but for its own errors, the bodies, and the problem."""
    models: list[tuple[type[BaseModel], Literal["validation"]]] = [
        (model, "validation") for model in [*requests.values(), *bodies]
    ]
    _, definitions = models_json_schema(models, ref_template=REFERENCE)
    problem_schema = TypeAdapter(Problem).json_schema(ref_template=REFERENCE)
    parts = problem_schema.pop("$defs")
    references = {name: {"$ref": REFERENCE.format(model=model.__name__)} for name, model in requests.items()}
    job_request = {
        "oneOf": list(references.values()),
        "discriminator": {
            "propertyName": "kind",
            "mapping": {name: reference["$ref"] for name, reference in references.items()},
        },
        "examples": [{"kind": name, "spec": kind.example} for name, kind in KINDS.items()],
    }
    own = {name: schema for name, schema in found.items() if "ValidationError" not in name}
    return {**own, **definitions["$defs"], **parts, "Problem": problem_schema, "JobRequest": job_request}


def _complete(path: str, method: str, operation: Json) -> None:
    """Adds the refusals that an operation may meet, the headers of its answers, its key and its links."""
    responses = operation["responses"]
    for status in sorted(_refusals(path, operation)):
        responses[str(status)] = problem(status)
    for status, response in responses.items():
        headers = response.setdefault("headers", {})
        headers["X-Request-ID"] = REQUEST_ID
        if status in ("429", "503"):
            headers["Retry-After"] = RETRY_AFTER
        if "429" in responses and status in ("201", "202", "429"):
            headers |= QUOTA
    if path.startswith("/v1/"):
        operation["security"] = [{"key": []}]
    if operation["operationId"] in LINKS:
        parameters, others = LINKS[operation["operationId"]]
        links = {name: {"operationId": name, "parameters": parameters} for name in others}
        for done in {"201", "202"} & responses.keys() or {"200"}:
            responses[done]["links"] = links


def _refusals(path: str, operation: Json) -> set[int]:
    """Statuses of refusals that follow from the path, the parameters and the body alone."""
    found = {403, 408, 421, 422, 431, 503}
    if path.startswith("/v1/"):
        found.add(401)
    if "{" in path and not path.startswith("/v1/aliases"):
        found.add(404)
    if "requestBody" in operation:
        found |= {400, 413, 415}
    return found
