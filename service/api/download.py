"""Blobs as downloads: one range, a strong ETag, never a type that a browser would run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import quote

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from service.blobs import BlobDamagedError, BlobMissingError, BlobStore
from service.errors import GoneError

PART = 256 * 1024
PLAIN = re.compile(r"[A-Za-z0-9@._-]+")
RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")  # longer numbers are no place in any file


async def blob_response(request: Request, blobs: BlobStore, name: str, filename: str) -> Response:
    """The content of a blob, or the range that the request asks for. GoneError when it was collected."""
    try:
        size = await asyncio.to_thread(blobs.size, name)
    except BlobMissingError as error:
        raise GoneError("The content has expired.") from error
    headers = {
        "Cache-Control": "private, max-age=31536000, immutable",
        "Content-Disposition": disposition(filename),
    }
    span = _span(request, size, name, headers)
    if isinstance(span, Response):
        return span
    try:
        file = await asyncio.to_thread(blobs.open_range, name, span.start)
    except (BlobMissingError, BlobDamagedError) as error:
        raise GoneError(f"The content can't be had any more: {error}.") from error
    parts = _parts(file, span.end - span.start)
    return StreamingResponse(parts, span.status, span.headers, media_type="application/octet-stream")


def bytes_response(request: Request, content: bytearray, version: str, media_type: str) -> Response:
    """Content at hand, or the range that the request asks for; ``version`` is another for other content."""
    span = _span(request, len(content), version, {})
    if isinstance(span, Response):
        return span
    return Response(bytes(content[span.start : span.end]), span.status, span.headers, media_type)


def clean_name(name: str) -> str:
    """The last part of a file name, without control characters; only ever shown, never a path."""
    return re.sub(r"[\x00-\x1f\x7f]", "", re.split(r"[/\\]", name)[-1])[:255] or "file"


def disposition(filename: str) -> str:
    """The header that makes browsers store the content under a name, whatever is in it (RFC 6266)."""
    name = clean_name(filename)
    if PLAIN.fullmatch(name):
        return f'attachment; filename="{name}"'
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


@dataclass(frozen=True)
class _Span:
    """First byte, the byte after the last, and how the answer says which they are."""

    start: int
    end: int
    status: int
    headers: dict[str, str]


def _span(request: Request, size: int, version: str, headers: dict[str, str]) -> _Span | Response:
    """The part that the request wants, or the whole answer where no content is needed."""
    headers = {**headers, "ETag": f'"{version}"', "Accept-Ranges": "bytes"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    start, end = _range(request, size, headers["ETag"])
    if start >= end and size > 0:
        return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{size}"})
    headers["Content-Length"] = str(end - start)
    if (start, end) == (0, size):
        return _Span(start, end, 200, headers)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return _Span(start, end, 206, headers)


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
