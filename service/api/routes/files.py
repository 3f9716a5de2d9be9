"""Uploaded texts, in the form that OpenAI clients know."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from service.api.answers import gives, gives_content
from service.api.backend import answer, backend_of, principal_of
from service.api.catalogue import RedisCatalogue
from service.api.download import blob_response, clean_name
from service.api.encoding import JsonResponse
from service.api.pages import Page, page_of
from service.api.quotas import quota_headers
from service.api.submit import bytes_quota
from service.api.uploads import store_upload
from service.errors import NotFoundError
from service.ids import new_id
from service.jobs.calls import arun, drop_file, keep_file
from service.jobs.records import Json
from service.wire import Deleted, File, FilePage

router = APIRouter(prefix="/v1/files", tags=["files"])

UPLOAD_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary", "description": "a text in UTF-8"},
                        "purpose": {"type": "string", "default": "corpus"},
                    },
                }
            }
        },
    }
}


def file_view(record: Json) -> dict[str, Any]:
    """The file object."""
    return {
        "object": "file",
        "id": record["id"],
        "bytes": record["bytes"],
        "created_at": record["created_at"],
        "filename": record["filename"],
        "purpose": record["purpose"],
        "status": "processed",
        "characters": record["characters"],
        "vocabulary": len(record["alphabet"]),
        "sha256": record["blob"],
    }


@router.post(
    "", openapi_extra=UPLOAD_FORM, summary="Upload a text", **gives(File, 201, problems=(429,), located=True)
)
async def upload_file(request: Request) -> Response:
    """Streams the form's ``file`` to the store; it can then stand as ``corpus.file`` in a train spec."""
    backend, principal = backend_of(request), principal_of(request)
    kind, limit = request.headers.get("content-type", ""), backend.settings.upload_limit
    form, writer = await store_upload(kind, request.stream(), backend.blobs, limit)
    try:
        blob = await asyncio.to_thread(writer.commit)
    finally:
        writer.abort()
    seconds, _ = await answer(backend.redis.time())
    file_id = new_id("file")
    record = {
        "id": file_id,
        "owner": principal.owner,
        "blob": blob,
        "bytes": form.check.size,
        "created_at": int(seconds),
        "filename": clean_name(form.filename),
        "purpose": form.fields.get("purpose", "corpus")[:64],
        "characters": form.check.characters,
        "alphabet": form.check.alphabet,
    }
    limits = principal.limits
    kept = await arun(backend.redis, keep_file(file_id, record, limits.bytes))
    quota = quota_headers(limits, {"bytes": kept.bytes})
    if not kept.done:
        raise bytes_quota(limits.bytes, quota)
    return JsonResponse(file_view(record), 201, {"Location": f"/v1/files/{file_id}", **quota})


@router.get("", summary="List files", **gives(FilePage))
async def list_files(
    request: Request,
    page: Page,
    purpose: Annotated[str | None, Query(max_length=64, description="only files of this purpose")] = None,
) -> dict[str, Any]:
    """A page of the uploaded files."""
    backend, scope = backend_of(request), principal_of(request).sees

    def fits(record: Json) -> bool:
        return purpose is None or record["purpose"] == purpose

    return await page_of(backend.redis, "file", scope, page, file_view, fits=fits)


async def _record(request: Request, file_id: str) -> Json:
    record = await RedisCatalogue(backend_of(request), principal_of(request)).file_record(file_id)
    if record is None:
        raise NotFoundError(f"There is no file {file_id!r}.", code="unknown-file", param="file_id")
    return record


@router.get("/{file_id}", summary="Read about a file", **gives(File))
async def get_file(request: Request, file_id: str) -> dict[str, Any]:
    """The file object."""
    return file_view(await _record(request, file_id))


@router.get(
    "/{file_id}/content",
    summary="Download a file",
    response_class=Response,
    **gives_content("application/octet-stream"),
)
async def get_content(request: Request, file_id: str) -> Response:
    """The bytes, with ranges."""
    record = await _record(request, file_id)
    return await blob_response(request, backend_of(request).blobs, record["blob"], f"{file_id}.txt")


@router.delete("/{file_id}", summary="Delete a file", **gives(Deleted))
async def delete_file(request: Request, file_id: str) -> dict[str, Any]:
    """Jobs that were accepted with it keep its text."""
    await _record(request, file_id)
    await arun(backend_of(request).redis, drop_file(file_id))
    return {"id": file_id, "object": "file", "deleted": True}
