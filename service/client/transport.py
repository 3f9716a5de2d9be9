"""Requests that are sent again where that does no harm, and downloads that go on where they broke."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, BinaryIO, Self
from urllib.parse import quote

import httpx

from service.client.errors import RefusedError, ServerFaultError, UnreachableError, problem_refusal, refusal
from service.client.frames import Frame, lines_until_comment, parse_frames
from service.wire import Json

PATIENCE_S = 15.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
STREAM_SILENCE_S = 45.0  # the server sends a comment at least every 15 s
JSON_TYPE = {"Content-Type": "application/json"}


def segment(name: str) -> str:
    """``name`` as one part of a path, whatever it holds."""
    quoted = quote(name, safe="")
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")


class Transport:
    """A connection to one server. Use as a context manager, or call ``close``."""

    def __init__(self, url: str, api_key: str | None = None, *, patience_s: float = PATIENCE_S) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.url = url.rstrip("/")
        self.patience_s = patience_s
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=httpx.Timeout(30.0, connect=5.0), trust_env=False
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: str, path: str, *, repeat: bool = True, **options: Any) -> Any:
        """The JSON of an answer, None for an empty one."""
        answer = self._request(method, path, repeat=repeat, **options)
        return answer.json() if answer.content else None

    def _request(self, method: str, path: str, *, repeat: bool = True, **options: Any) -> httpx.Response:
        """One request; repeated on connection errors and on 429, 502-504 until the patience ends."""
        clock = Clock(self.patience_s if repeat else 0.0, None)
        while True:
            try:
                answer = self._http.request(method, path, **options)
            except httpx.TransportError as error:
                clock.pause_or_raise(self.url, error)
                continue
            if not answer.is_error:
                return answer
            problem = refusal(answer)
            permanent = answer.headers.get("x-should-retry") == "false"
            if answer.status_code not in RETRIED_STATUSES or permanent or not repeat:
                raise problem
            clock.pause_or_raise(self.url, problem, retry_after(answer))

    def _all(self, path: str) -> Iterator[Json]:
        """Every entry of a list, page by page."""
        page: Json = {"has_more": True, "last_id": None}
        while page["has_more"]:
            after = {"after": page["last_id"]} if page["last_id"] else {}
            page = self._call("GET", path, params={"limit": 100, **after})
            yield from page["data"]

    def _stream(
        self, path: str, clock: Clock, *, params: Mapping[str, str] | None = None, last_id: str | None = None
    ) -> Iterator[Frame]:
        """The frames of one connection to an event stream. Raises the refusal that ends it."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        timeout = httpx.Timeout(5.0, read=clock.silence())
        with self._http.stream("GET", path, params=params, headers=headers, timeout=timeout) as answer:
            if answer.is_error:
                answer.read()
                raise refusal(answer)
            clock.heard()
            lines = lines_until_comment(answer) if clock.deadline else answer.iter_lines()
            for frame in parse_frames(lines):
                if frame.event == "error":
                    raise problem_refusal(frame.json())
                yield frame

    def _download(self, path: str, target: BinaryIO) -> int:
        """Writes content to ``target``; the number of bytes. A connection that breaks is taken up again."""
        clock, written, etag = Clock(self.patience_s, None), 0, ""
        while True:
            headers = {"Range": f"bytes={written}-", "If-Range": etag} if written else {}
            try:
                with self._http.stream("GET", path, headers=headers) as answer:
                    if answer.is_error:
                        answer.read()
                        raise refusal(answer)
                    clock.heard()
                    if written and answer.status_code != 206:
                        raise UnreachableError(f"{self.url}{path} changed while it was downloaded")
                    etag = answer.headers.get("etag", "")
                    for part in answer.iter_bytes():
                        written += target.write(part)
                    return written
            except (httpx.TransportError, ServerFaultError) as error:
                clock.pause_or_raise(self.url, error)


class Clock:
    """How long to go on trying: ``patience_s`` since the first failure, and never past ``deadline``."""

    def __init__(self, patience_s: float, deadline: float | None) -> None:
        self.patience_s = patience_s
        self.deadline = deadline
        self.heard()

    def heard(self) -> None:
        """The server answered: patience and pauses start again."""
        self.failing_since: float | None = None
        self.pause_s = FIRST_PAUSE_S

    def silence(self) -> float:
        """Seconds a stream may stay silent before it counts as broken."""
        if self.deadline is None:
            return STREAM_SILENCE_S
        return min(STREAM_SILENCE_S, max(0.05, self.deadline - time.monotonic()))

    def check_deadline(self, what: str) -> None:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise TimeoutError(f"{what} has not ended within the time given")

    def pause_or_raise(self, url: str, error: Exception, at_least_s: float = 0.0) -> None:
        """Waits before the next try, or raises when the patience or the time is over."""
        now, pause = time.monotonic(), max(self.pause_s, at_least_s)
        if self.failing_since is None:
            self.failing_since = now
        if now + pause - self.failing_since > self.patience_s:
            if isinstance(error, RefusedError):
                raise error
            raise UnreachableError(f"no answer from {url}: {error}") from error
        time.sleep(pause if self.deadline is None else max(0.0, min(pause, self.deadline - now)))
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)


def given(**values: Any) -> dict[str, Any]:
    """The values that were given."""
    return {name: value for name, value in values.items() if value is not None}


def as_json(body: Mapping[str, Any]) -> bytes:
    """A body to send. A NaN goes as Python writes it, so that the server answers which field has it."""
    return json.dumps(body).encode()


def retry_after(answer: httpx.Response) -> float:
    """The Retry-After header in seconds, 0 without one."""
    try:
        return float(answer.headers.get("retry-after", 0))
    except ValueError:
        return 0.0
