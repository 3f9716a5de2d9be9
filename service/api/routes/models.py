"""Published models, in the form that OpenAI clients know."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.answers import gives, gives_content
from service.api.backend import backend_of, principal_of
from service.api.catalogue import RedisCatalogue
from service.api.download import blob_response
from service.api.pages import Page, page_of
from service.errors import NotFoundError
from service.jobs.calls import arun
from service.jobs.models import unpublish
from service.jobs.records import Json
from service.wire import Deleted, Model, ModelPage

router = APIRouter(prefix="/v1/models", tags=["models"])


def model_view(record: Json) -> dict[str, Any]:
    """The model object; ``alias`` is what it was published as, and may name a newer one by now."""
    return {
        "object": "model",
        "id": record["id"],
        "created": int(record.get("created", 0)),
        "owned_by": record.get("owner", "local"),
        "alias": record.get("alias") or None,
        "job": record.get("job"),
        "step": record.get("step"),
        "config": record.get("config"),
        "sha256": record["weights"],
    }


@router.get("", summary="List models", **gives(ModelPage))
async def list_models(request: Request, page: Page) -> dict[str, Any]:
    """A page of the published models."""
    backend, scope = backend_of(request), principal_of(request).sees
    return await page_of(backend.redis, "model", scope, page, model_view)


async def _record(request: Request, name: str) -> Json:
    record = await RedisCatalogue(backend_of(request), principal_of(request)).model_record(name)
    if record is None:
        raise NotFoundError(f"There is no model {name!r}.", code="unknown-model", param="model")
    return record


@router.get("/{name}", summary="Read about a model", **gives(Model))
async def get_model(request: Request, name: str) -> dict[str, Any]:
    """The model object, by id or alias."""
    return model_view(await _record(request, name))


@router.delete("/{name}", summary="Delete a model", **gives(Deleted))
async def delete_model(request: Request, name: str) -> dict[str, Any]:
    """With the aliases that name it. Jobs that were accepted with it keep its weights."""
    model_id = (await _record(request, name))["id"]
    await arun(backend_of(request).redis, unpublish(model_id))
    return {"id": model_id, "object": "model", "deleted": True}


@router.get(
    "/{name}/weights",
    summary="Download a model",
    response_class=Response,
    **gives_content("application/octet-stream"),
)
async def get_model_weights(request: Request, name: str) -> Response:
    """The weights as safetensors, with ranges."""
    record = await _record(request, name)
    filename = f"{record['id']}.safetensors"
    return await blob_response(request, backend_of(request).blobs, record["weights"], filename)
