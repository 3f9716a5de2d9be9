"""Blobs for workers on other machines, whose keys have the scope ``worker``; nothing here can be removed."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.answers import gives, gives_content
from service.api.backend import backend_of
from service.api.download import blob_response
from service.api.encoding import JsonResponse
from service.blobs import BlobDamagedError, BlobMissingError, check_name
from service.errors import NotFoundError, invalid_field
from service.wire import Blob

router = APIRouter(prefix="/v1/blobs", tags=["blobs"])

CONTENT = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def _checked(name: str) -> str:
    try:
        return check_name(name)
    except BlobMissingError as error:
        raise NotFoundError(f"{error}.", code="unknown-blob", param="name") from error


@router.get(
    "/{name}",
    summary="Read a blob",
    response_class=Response,
    **gives_content("application/octet-stream"),
)
async def get_blob(request: Request, name: str) -> Response:
    """The bytes, with ranges; their sha256 is the name."""
    return await blob_response(request, backend_of(request).blobs, _checked(name), name)


@router.put("/{name}", openapi_extra=CONTENT, summary="Store a blob", **gives(Blob, 201))
async def put_blob(request: Request, name: str) -> Response:
    """Durable when the answer comes. Sent again it does no harm; bytes of another name are refused."""
    backend = backend_of(request)
    _checked(name)
    writer = await asyncio.to_thread(backend.blobs.writer, backend.settings.blob_limit)
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            await asyncio.to_thread(writer.write, part)
        await asyncio.to_thread(writer.commit, name)
    except BlobDamagedError as error:
        raise invalid_field("body", f"{size} bytes", "must be those of the name") from error
    finally:
        await asyncio.to_thread(writer.abort)
    return JsonResponse({"object": "blob", "id": name, "bytes": size}, 201)
