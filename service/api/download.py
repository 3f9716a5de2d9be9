"""Blobs as downloads: one range, a strong ETag, never a type that a browser would run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import BinaryIO

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from service.blobs import BlobDamagedError, BlobMissingError, BlobStore
from service.errors import GoneError

PART = 256 * 1024
RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")  # longer numbers are no place in any file


async def blob_response(request: Request, blobs: BlobStore, name: str, filename: str) -> Response:
    """The content of a blob, or the range that the request asks for. GoneError when it was collected."""
    try:
        size = await asyncio.to_thread(blobs.size, name)
    except BlobMissingError as error:
        raise GoneError("The content has expired.") from error
    headers = {
        "ETag": f'"{name}"',
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=31536000, immutable",
        "Content-Disposition": f'attachment; filename="{filename}"',
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    start, end = _range(request, size, headers["ETag"])
    if start >= end and size > 0:
        return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    partial = (start, end) != (0, size)
    if partial:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    headers["Content-Length"] = str(end - start)
    try:
        file = await asyncio.to_thread(blobs.open_range, name, start)
    except (BlobMissingError, BlobDamagedError) as error:
        raise GoneError(f"The content can't be had any more: {error}.") from error
    return StreamingResponse(
        _parts(file, end - start), 206 if partial else 200, headers, media_type="application/octet-stream"
    )


def _range(request: Request, size: int, etag: str) -> tuple[int, int]:
    """First byte and the byte after the last; the whole where no single range is asked for."""
    form = RANGE.fullmatch(request.headers.get("range", ""))
    if form is None or request.headers.get("if-range", etag) != etag or form[1] == form[2] == "":
        return 0, size
    if form[1] == "":
        return max(0, size - int(form[2])), size
    last = int(form[2]) if form[2] else size - 1
    if last < int(form[1]) and form[2]:  # not a range
        return 0, size
    return int(form[1]), min(last + 1, size)


async def _parts(file: BinaryIO, length: int) -> AsyncGenerator[bytes]:
    with file:
        while length > 0 and (part := await asyncio.to_thread(file.read, min(PART, length))):
            length -= len(part)
            yield part
