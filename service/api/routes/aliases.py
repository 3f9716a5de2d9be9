"""Aliases: names that people choose for models, and may move to another one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import Response

from service import wire
from service.api.answers import gives, gives_nothing
from service.api.backend import answer, backend_of, principal_of
from service.api.catalogue import RedisCatalogue
from service.api.openapi import json_body
from service.api.pages import Page
from service.api.requests import parse, read_body
from service.errors import NotFoundError, invalid_field
from service.jobs.calls import arun
from service.jobs.models import drop_alias, set_alias
from service.jobs.records import flat, key
from service.specs import Strict
from service.specs.train import ALIAS
from service.wire import AliasPage

router = APIRouter(prefix="/v1/aliases", tags=["models"])

Alias = Annotated[str, Path(pattern=ALIAS, description="lower-case letters, digits, dots and dashes")]


class AliasRequest(Strict):
    """The body of ``PUT /v1/aliases/{alias}``."""

    model: str = Field(min_length=1, max_length=64, description="id of the model that it names from now on")


def alias_view(alias: str, model: str) -> dict[str, Any]:
    """The alias object."""
    return {"object": "alias", "id": alias, "model": model}


@router.get("", summary="List aliases", **gives(AliasPage))
async def list_aliases(request: Request, page: Page) -> dict[str, Any]:
    """A page of the aliases in alphabetical order, from the end with ``order=desc``."""
    stored = await answer(backend_of(request).redis.hgetall(key("aliases", principal_of(request).sees)))
    models = flat([part for pair in stored.items() for part in pair])
    names = sorted(models, reverse=page.descending)
    if page.after:
        names = [name for name in names if (name < page.after if page.descending else name > page.after)]
    shown = names[: page.limit]
    return {
        "object": "list",
        "data": [alias_view(name, models[name]) for name in shown],
        "first_id": shown[0] if shown else None,
        "last_id": shown[-1] if shown else None,
        "has_more": len(names) > page.limit,
    }


@router.put(
    "/{alias}",
    openapi_extra=json_body("AliasRequest"),
    summary="Let an alias name a model",
    **gives(wire.Alias),
)
async def put_alias(request: Request, alias: Alias) -> dict[str, Any]:
    """Requests that name the alias get this model from now on; jobs accepted before keep theirs."""
    backend = backend_of(request)
    body = parse(AliasRequest, await read_body(request))
    record = await RedisCatalogue(backend, principal_of(request)).model_record(body.model)
    if record is None or not await arun(backend.redis, set_alias(alias, record["id"])):
        raise invalid_field("model", body.model, "must be the id of a model")
    return alias_view(alias, record["id"])


@router.delete("/{alias}", summary="Take an alias away", **gives_nothing(problems=(404,)))
async def delete_alias(request: Request, alias: Alias) -> Response:
    """The model stays."""
    backend = backend_of(request)
    record = await RedisCatalogue(backend, principal_of(request)).model_record(alias)
    if record is None or not await arun(backend.redis, drop_alias(alias, record["id"])):
        raise NotFoundError(f"There is no alias {alias!r}.", code="unknown-alias", param="alias")
    return Response(status_code=204)
