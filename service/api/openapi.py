"""The OpenAPI document: FastAPI's, with the forms of the bodies that we read ourselves."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, create_model
from pydantic.json_schema import models_json_schema

from service.specs import KINDS

REFERENCE = "#/components/schemas/{model}"


def json_body(name: str) -> dict[str, Any]:
    """The part of a route that documents a JSON body of a schema registered with ``add_openapi``."""
    schema = {"$ref": REFERENCE.format(model=name)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def job_requests(options: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """For each kind the body that creates one."""
    requests = {}
    for name, kind in KINDS.items():
        fields: dict[str, Any] = {"kind": (Literal[name], ...), "spec": (kind.spec, ...)}
        requests[name] = create_model(f"{name.capitalize()}JobRequest", __base__=options, **fields)
    return requests


def add_openapi(app: FastAPI, options: type[BaseModel], bodies: list[type[BaseModel]]) -> None:
    """Makes ``app.openapi`` describe ``JobRequest`` as one form a kind, other bodies by their models."""
    requests = job_requests(options)

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            models: list[tuple[type[BaseModel], Literal["validation"]]] = [
                (model, "validation") for model in [*requests.values(), *bodies]
            ]
            _, definitions = models_json_schema(models, ref_template=REFERENCE)
            components = schema.setdefault("components", {}).setdefault("schemas", {})
            components.update(definitions["$defs"])
            components["JobRequest"] = {
                "oneOf": [{"$ref": REFERENCE.format(model=model.__name__)} for model in requests.values()],
                "discriminator": {
                    "propertyName": "kind",
                    "mapping": {
                        name: REFERENCE.format(model=model.__name__) for name, model in requests.items()
                    },
                },
            }
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
