"""The blob store of another machine, reached through its API with a worker key.

The names protect the bytes: what is read is hashed here, what is written is hashed there. Every call may be
sent again, so an API that is away for less than a minute is waited for.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import time
from collections.abc import Iterator
from typing import BinaryIO, cast

import httpx

from service.blobs.protocol import (
    BlobDamagedError,
    BlobError,
    BlobMissingError,
    BlobSpaceError,
    BlobTooLargeError,
    check_name,
)

PATIENCE_S = 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 3.0
TIMEOUT = httpx.Timeout(60.0, connect=5.0)
PART = 256 * 1024
AWAY = frozenset({429, 502, 503, 504})
REFUSALS: dict[int, type[BlobError]] = {
    404: BlobMissingError,
    410: BlobMissingError,
    413: BlobTooLargeError,
    422: BlobDamagedError,
}


def _parts(file: BinaryIO) -> Iterator[bytes]:
    """The content from the start, whatever was read before: a request may be sent more than once."""
    file.seek(0)
    while part := file.read(PART):
        yield part


def _code(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["code"])
    except (ValueError, KeyError, TypeError):
        return ""


class HttpStore:
    """Blobs behind ``/v1/blobs`` of an API. It can't remove any."""

    def __init__(self, url: str, key: str, *, patience_s: float = PATIENCE_S) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._url = url.rstrip("/")
        self._patience_s = patience_s
        # Without a connection yet: the process that opens the store may fork before it uses it.
        self._http = httpx.Client(base_url=self._url, headers=headers, timeout=TIMEOUT, trust_env=False)

    def put(self, content: bytes) -> str:
        """Stores bytes durably and returns their name."""
        return self.send(hashlib.sha256(content).hexdigest(), io.BytesIO(content))

    def send(self, name: str, content: BinaryIO) -> str:
        """Stores the content of a file under its name."""
        content.seek(0, io.SEEK_END)
        headers = {"Content-Length": str(content.tell()), "Content-Type": "application/octet-stream"}
        self._call("PUT", name, headers, content)
        return name

    def writer(self, limit: int | None = None) -> _HttpWriter:
        """A writer that sends what it gathered on this machine's disk."""
        return _HttpWriter(self, limit)

    def get(self, name: str) -> bytes:
        """The whole content, checked."""
        content = self._call("GET", name).content
        if hashlib.sha256(content).hexdigest() != name:
            raise BlobDamagedError(f"blob {name} came damaged from {self._url}")
        return content

    def size(self, name: str) -> int:
        """The number of bytes."""
        return int(self._call("HEAD", name).headers["content-length"])

    def open_range(self, name: str, start: int = 0) -> BinaryIO:
        """A readable file positioned at ``start``; all of the content was fetched and checked."""
        file = io.BytesIO(self.get(name))
        file.seek(start)
        return file

    def check(self) -> None:
        """Raises BlobError when the store can't take a blob now."""
        self.put(b"\0")

    def _call(
        self, method: str, name: str, headers: dict[str, str] | None = None, content: BinaryIO | None = None
    ) -> httpx.Response:
        """One request, repeated while the API is away. BlobError when that lasts, or when it refuses."""
        path = f"/v1/blobs/{check_name(name)}"
        end, pause = time.monotonic() + self._patience_s, FIRST_PAUSE_S
        while True:
            try:
                body = None if content is None else _parts(content)
                answer = self._http.request(method, path, headers=headers, content=body)
                if not answer.is_error:
                    return answer
                error = self._refusal(name, answer)
                is_away = answer.status_code in AWAY and not isinstance(error, BlobSpaceError)
            except httpx.TransportError as failure:
                error, is_away = BlobError(f"no answer from {self._url}: {failure}"), True
            if not is_away or time.monotonic() + pause > end:
                raise error
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _refusal(self, name: str, answer: httpx.Response) -> BlobError:
        if _code(answer) == "no-space":
            return BlobSpaceError(f"the disk behind {self._url} is full")
        kind = REFUSALS.get(answer.status_code, BlobError)
        return kind(f"blob {name}: {self._url} answered {answer.status_code} {_code(answer)}")


class _HttpWriter:
    """Gathers in a temporary file what ``commit`` sends."""

    def __init__(self, store: HttpStore, limit: int | None) -> None:
        self._store = store
        self._limit = limit
        self._written = 0
        self._hash = hashlib.sha256()
        self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115  (closed by commit or abort)

    def write(self, part: bytes) -> None:
        self._written += len(part)
        if self._limit is not None and self._written > self._limit:
            raise BlobTooLargeError(f"more than {self._limit} bytes")
        self._hash.update(part)
        self._file.write(part)

    def flush(self) -> None:
        self._file.flush()

    def commit(self, expected: str | None = None) -> str:
        name = self._hash.hexdigest()
        if expected not in (None, name):
            raise BlobDamagedError(f"blob {expected} came damaged: its content has the name {name}")
        self._store.send(name, self._file)
        self._file.close()
        return name

    def abort(self) -> None:
        self._file.close()
