"""API keys, for those whose own key is an admin's."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from service.api.answers import gives, gives_nothing
from service.api.backend import Backend, answer, backend_of
from service.api.encoding import JsonResponse
from service.api.openapi import json_body
from service.api.pages import Page, page_of
from service.api.requests import parse, read_body
from service.errors import ConflictError, NotFoundError
from service.ids import is_id
from service.jobs.events import rfc3339
from service.jobs.records import Json, flat, key
from service.keys import ADMINS, INDEX, USED, Scope, drop, new_key, put
from service.specs import Strict
from service.wire import ApiKey, KeyPage

router = APIRouter(prefix="/v1/keys", tags=["keys"])

YEAR_S = 366 * 86_400
MOST = 2**53


class KeyLimits(Strict):
    """What the key's owner may have at a time; 0: no bound, not given: as the settings say."""

    queued: int | None = Field(None, ge=0, le=MOST, description="queued jobs")
    running: int | None = Field(None, ge=0, le=MOST, description="running jobs")
    bytes: int | None = Field(None, ge=0, le=MOST, description="bytes of uploads and checkpoints")


class KeyRequest(Strict):
    """The body of ``POST /v1/keys``."""

    name: str = Field("", max_length=128, description="what people call it")
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=4)] = Field(
        ["read", "submit"], description="what it may do; admin includes read and submit, and sees everything"
    )
    owner: str = Field(
        "", pattern=r"^([0-9a-z][0-9a-z.-]{0,31})?$", description="whose things it sees; else only its own"
    )
    expires_in_s: int | None = Field(None, ge=1, le=10 * YEAR_S, description="seconds until it ends")
    limits: KeyLimits = KeyLimits()


def key_view(record: Json) -> dict[str, Any]:
    """The key object; nothing in it opens anything."""
    return {
        "object": "key",
        "id": record["id"],
        "name": record["name"] or None,
        "owner": record["owner"],
        "scopes": sorted(record["scopes"]),
        "limits": record["limits"],
        "created_at": rfc3339(record["created_at"]),
        "expires_at": rfc3339(record["expires_at"]) if record["expires_at"] else None,
    }


@router.post(
    "",
    openapi_extra=json_body("KeyRequest"),
    summary="Create a key",
    **gives(ApiKey, 201, problems=(409,), located=True),
)
async def create_key(request: Request) -> Response:
    """The answer's ``secret`` is the key, and is never shown again. The first key must be an admin's."""
    backend = backend_of(request)
    body = parse(KeyRequest, await read_body(request))
    limits = {name: value for name, value in body.limits.model_dump().items() if value is not None}
    made, secret = new_key(
        body.scopes, name=body.name, owner=body.owner, lives_s=body.expires_in_s or 0, limits=limits
    )
    if not made.is_admin and not await _has_admin(backend):
        raise ConflictError(
            "The first key must have the scope admin: as soon as there is a key, nobody gets in without one.",
            code="no-admin-key",
            param="scopes",
        )
    await backend.keys.change(put(made))
    view = key_view(asdict(made)) | {"secret": secret}
    return JsonResponse(view, 201, {"Location": f"/v1/keys/{made.id}"})


async def _has_admin(backend: Backend) -> bool:
    return backend.keys.has_fixed or await answer(backend.redis.zcard(ADMINS)) > 0


@router.get("", summary="List keys", **gives(KeyPage))
async def list_keys(request: Request, page: Page) -> dict[str, Any]:
    """A page of the keys, without those of the key file."""
    return await page_of(backend_of(request).redis, "key", "*", page, key_view)


async def _record(backend: Backend, key_id: str) -> Json:
    content = await backend.redis.get(key("key", key_id)) if is_id(key_id, "key") else None
    if content is None:
        raise NotFoundError(f"There is no key {key_id!r}.", code="unknown-key", param="key_id")
    return json.loads(content)


@router.get("/{key_id}", summary="Read about a key", **gives(ApiKey))
async def get_key(request: Request, key_id: str) -> dict[str, Any]:
    """The key object with its last use, and what its owner has at present."""
    redis = backend_of(request).redis
    record = await _record(backend_of(request), key_id)
    used = await answer(redis.hget(USED, key_id))
    usage = await answer(redis.hgetall(key("usage", record["owner"])))
    counts = flat([part for pair in usage.items() for part in pair])
    return key_view(record) | {
        "last_used_at": rfc3339(int(used)) if used else None,
        "usage": {name: int(counts.get(name, 0)) for name in KeyLimits.model_fields},
    }


@router.delete("/{key_id}", summary="Revoke a key", **gives_nothing(problems=(409,)))
async def revoke_key(request: Request, key_id: str) -> Response:
    """It opens nothing any more, elsewhere within a second. What was made with it stays."""
    backend = backend_of(request)
    record = await _record(backend, key_id)
    others = await answer(backend.redis.zcard(INDEX)) > 1
    last = "admin" in record["scopes"] and await answer(backend.redis.zcard(ADMINS)) == 1
    if last and others and not backend.keys.has_fixed:
        raise ConflictError("This is the last admin key: revoke the others first.", code="no-admin-key")
    await backend.keys.change(drop(key_id))
    return Response(status_code=204)
