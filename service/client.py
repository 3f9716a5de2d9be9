"""The job API from Python: submit, watch, cancel, sample.

Every call that can be repeated without harm is repeated when the connection fails; ``submit`` carries an
idempotency key for that. ``events`` yields each event of a job exactly once, however often the stream breaks.

    ClientError
    ├── UnreachableError           no answer within the patience
    └── RefusedError               the server answered with a problem document
        ├── UnauthorisedError      401, 403
        ├── NotFoundError          404, 410
        └── ServerFaultError       5xx
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import httpx

from service.wire import Event, Job, Json, JsonList, Page, Series

PATIENCE_S = 15.0
STREAM_PATIENCE_S = 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
STREAM_SILENCE_S = 45.0  # the server sends a comment at least every 15 s


class ClientError(Exception):
    """Base of everything this module raises on purpose."""


class UnreachableError(ClientError):
    """No server answered; the message names the address and the last error."""


class RefusedError(ClientError):
    """The server answered with an error.

    ``status`` is the HTTP status, ``code`` the problem's code, ``param`` the field it is about and ``errors``
    has one entry a field when there are several.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.code: str = problem.get("code") or f"http-{status}"
        self.param: str | None = problem.get("param")
        self.errors: list[Json] = list(problem.get("errors") or ())
        self.request_id: str | None = problem.get("request_id")
        super().__init__(problem.get("detail") or problem.get("title") or f"the server answered {status}")


class UnauthorisedError(RefusedError):
    """The API key is missing, wrong, or not allowed to do this."""


class NotFoundError(RefusedError):
    """There is no such job, model or file, or it has expired."""


class ServerFaultError(RefusedError):
    """The server failed; the request may be tried again later."""


ERROR_CLASSES: dict[int, type[RefusedError]] = {
    401: UnauthorisedError,
    403: UnauthorisedError,
    404: NotFoundError,
    410: NotFoundError,
}

JSON_TYPE = {"Content-Type": "application/json"}
STREAM_STATUSES = {"invalid_request_error": 400, "not_found_error": 404}  # by an error's type


@dataclass(frozen=True)
class Frame:
    """One server-sent event."""

    event: str
    data: str
    id: str | None


def parse_frames(lines: Iterable[str]) -> Iterator[Frame]:
    """Server-sent events from the lines of a stream; comments are skipped, an unfinished frame is dropped."""
    fields: dict[str, list[str]] = {}
    for line in lines:
        if not line:
            if "data" in fields or "event" in fields:
                event, ids = fields.get("event", ["message"])[-1], fields.get("id")
                yield Frame(event, "\n".join(fields.get("data", [])), ids[-1] if ids else None)
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))


def lines_until_comment(answer: httpx.Response) -> Iterator[str]:
    """The stream's lines up to the first sign of life that carries no event.

    A stream's silence has one fixed limit; opened again, the stream gets the time that is left.
    """
    for line in answer.iter_lines():
        if line.startswith(":"):
            return
        yield line


class Client:
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

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Jobs ------------------------------------------------------------------------------------------------

    def submit(
        self,
        kind: str,
        spec: Mapping[str, Any],
        *,
        name: str | None = None,
        metadata: Mapping[str, str] | None = None,
        priority: int | None = None,
        timeout_s: float | None = None,
        max_attempts: int | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Creates a job. Sent again with the same key when no answer came, so at most one job comes of it."""
        options = {
            "name": name,
            "metadata": metadata,
            "priority": priority,
            "timeout_s": timeout_s,
            "max_attempts": max_attempts,
        }
        body = {"kind": kind, "spec": spec} | {
            key: value for key, value in options.items() if value is not None
        }
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        job: Job = self._call("POST", "/v1/jobs", content=as_json(body), headers=headers | JSON_TYPE)
        return job

    def estimate(self, kind: str, spec: Mapping[str, Any]) -> Json:
        """The normalised spec and its estimated cost; nothing is queued."""
        body = {"kind": kind, "spec": spec}
        answer: Json = self._call(
            "POST", "/v1/jobs", content=as_json(body), headers=JSON_TYPE, params={"dry_run": "true"}
        )
        return answer

    def get(self, job_id: str) -> Job:
        job: Job = self._call("GET", f"/v1/jobs/{job_id}")
        return job

    def list(
        self, *, state: str | None = None, kind: str | None = None, limit: int = 20, after: str | None = None
    ) -> Page:
        """One page of jobs, newest first; ``after`` is the last id of the page before."""
        given = {"state": state, "kind": kind, "limit": limit, "after": after}
        params = {key: value for key, value in given.items() if value is not None}
        page: Page = self._call("GET", "/v1/jobs", params=params)
        return page

    def cancel(self, job_id: str) -> Job:
        """Asks a job to end; of a job that has ended it changes nothing."""
        job: Job = self._call("POST", f"/v1/jobs/{job_id}/cancel")
        return job

    def pause(self, job_id: str) -> Job:
        """Asks a job to checkpoint and wait. RefusedError when it has ended."""
        job: Job = self._call("POST", f"/v1/jobs/{job_id}/pause")
        return job

    def resume(self, job_id: str) -> Job:
        """Queues a paused job again; it goes on from its last checkpoint."""
        job: Job = self._call("POST", f"/v1/jobs/{job_id}/resume")
        return job

    def delete(self, job_id: str) -> None:
        """Deletes a job that has ended. RefusedError for any other."""
        self._call("DELETE", f"/v1/jobs/{job_id}")

    def retry(self, job_id: str) -> Job:
        """A new job that goes on where a failed or cancelled one was; its ``retry_of`` names the old."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        job: Job = self._call("POST", f"/v1/jobs/{job_id}/retry", headers=headers)
        return job

    def wait(self, job_id: str, *, timeout_s: float | None = None) -> Job:
        """Follows a job until it has ended. Raises TimeoutError when ``timeout_s`` passes before that."""
        for _ in self.events(job_id, timeout_s=timeout_s):
            pass
        return self.get(job_id)

    def metrics(
        self,
        job_id: str,
        keys: Iterable[str] = (),
        *,
        points: int | None = None,
        from_step: int | None = None,
        to_step: int | None = None,
    ) -> Series:
        """The series of a job: name → {"steps": […], "values": […]}."""
        given = {"keys": ",".join(keys), "points": points, "from_step": from_step, "to_step": to_step}
        params = {key: value for key, value in given.items() if value not in (None, "")}
        series: Series = self._call("GET", f"/v1/jobs/{job_id}/metrics", params=params)["series"]
        return series

    def checkpoints(self, job_id: str) -> JsonList:
        manifests: JsonList = self._call("GET", f"/v1/jobs/{job_id}/checkpoints")["data"]
        return manifests

    # Events ----------------------------------------------------------------------------------------------

    def past_events(self, job_id: str, *, after: int = 0, limit: int = 1000) -> Iterator[Event]:
        """The events a job has so far, page by page."""
        while True:
            page = self._call("GET", f"/v1/jobs/{job_id}/events", params={"after": after, "limit": limit})
            yield from page["data"]
            if not page["has_more"] or not page["data"]:
                return
            after = page["data"][-1]["seq"]

    def events(
        self,
        job_id: str,
        *,
        after: int = 0,
        timeout_s: float | None = None,
        patience_s: float = STREAM_PATIENCE_S,
    ) -> Iterator[Event]:
        """Every event after ``after``, live, each exactly once and in order, until the job has ended.

        A broken or silent stream is opened again from the last event seen. When the server gives up a cursor
        it sends a ``reset``: the history is then read page by page and the stream opened behind it.
        Raises TimeoutError after ``timeout_s``, UnreachableError when nothing answers for ``patience_s``.
        """
        clock = Clock(patience_s, None if timeout_s is None else time.monotonic() + timeout_s)
        while True:
            try:
                for frame in self._stream(job_id, after, clock):
                    if frame.event == "end":
                        return
                    if frame.event == "reset":
                        for event in self.past_events(job_id, after=after):
                            after = event["seq"]
                            yield event
                        break
                    if frame.id is None or (event := decode_event(frame))["seq"] <= after:
                        continue
                    after = event["seq"]
                    yield event
                    clock.check_deadline(job_id)
                else:
                    time.sleep(FIRST_PAUSE_S)  # closed without an end: the server is stopping or starting
            except (httpx.TransportError, ServerFaultError) as error:
                clock.pause_or_raise(self.url, error)
            clock.check_deadline(job_id)

    def _stream(self, job_id: str, after: int, clock: Clock) -> Iterator[Frame]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(after)} if after else {})
        timeout = httpx.Timeout(5.0, read=clock.silence())
        path = f"/v1/jobs/{job_id}/events"
        with self._http.stream("GET", path, headers=headers, timeout=timeout) as answer:
            if answer.is_error:
                answer.read()
                raise refusal(answer)
            clock.heard()
            yield from parse_frames(lines_until_comment(answer) if clock.deadline else answer.iter_lines())

    # Models and files ------------------------------------------------------------------------------------

    def models(self) -> JsonList:
        """Every published model, newest first."""
        return list(self._all("/v1/models"))

    def files(self) -> Iterator[Json]:
        """Every uploaded file, newest first."""
        return self._all("/v1/files")

    def _all(self, path: str) -> Iterator[Json]:
        page: Json = {"has_more": True, "last_id": None}
        while page["has_more"]:
            after = {"after": page["last_id"]} if page["last_id"] else {}
            page = self._call("GET", path, params={"limit": 100, **after})
            yield from page["data"]

    def complete(self, model: str, prompt: str, **options: Any) -> Json:
        """A completion in one piece; ``options`` are those of ``POST /v1/completions``."""
        body = {"model": model, "prompt": prompt, **options}
        answer: Json = self._call(
            "POST", "/v1/completions", content=as_json(body), headers=JSON_TYPE, timeout=300.0
        )
        return answer

    def stream_completion(self, model: str, prompt: str, **options: Any) -> Iterator[str]:
        """A completion piece by piece. Closing the iterator stops the generation."""
        body = {"model": model, "prompt": prompt, **options, "stream": True}
        timeout = httpx.Timeout(5.0, read=300.0)
        try:
            with self._http.stream(
                "POST", "/v1/completions", content=as_json(body), headers=JSON_TYPE, timeout=timeout
            ) as answer:
                if answer.is_error:
                    answer.read()
                    raise refusal(answer)
                for frame in parse_frames(answer.iter_lines()):
                    if frame.data == "[DONE]":
                        return
                    piece = json.loads(frame.data)
                    if "error" in piece:
                        raise stream_refusal(piece["error"])
                    yield from (choice["text"] for choice in piece["choices"])
        except httpx.TransportError as error:
            raise UnreachableError(f"{self.url} broke off the completion: {error}") from error

    def upload(self, path: Path, *, purpose: str = "corpus") -> Json:
        """Uploads a text file; the answer's ``id`` can stand as ``corpus.file`` in a train spec."""
        with path.open("rb") as content:
            return self.upload_stream(path.name, content, purpose=purpose)

    def upload_stream(self, name: str, content: BinaryIO, *, purpose: str = "corpus") -> Json:
        files = {"file": (name, content)}
        answer: Json = self._call("POST", "/v1/files", files=files, data={"purpose": purpose}, repeat=False)
        return answer

    def ready(self) -> Json:
        """What ``/readyz`` says: the store, Redis, live workers per lane. ServerFaultError if not ready."""
        answer: Json = self._call("GET", "/readyz", repeat=False)
        return answer

    # Transport -------------------------------------------------------------------------------------------

    def _call(self, method: str, path: str, *, repeat: bool = True, **options: Any) -> Any:
        """One request; repeated on connection errors and on 429, 502-504 until the patience ends."""
        clock = Clock(self.patience_s if repeat else 0.0, None)
        while True:
            try:
                answer = self._http.request(method, path, **options)
            except httpx.TransportError as error:
                clock.pause_or_raise(self.url, error)
                continue
            if not answer.is_error:
                return answer.json() if answer.content else None
            problem = refusal(answer)
            permanent = answer.headers.get("x-should-retry") == "false"
            if answer.status_code not in RETRIED_STATUSES or permanent or not repeat:
                raise problem
            clock.pause_or_raise(self.url, problem, retry_after(answer))


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

    def check_deadline(self, job_id: str) -> None:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise TimeoutError(f"{job_id} has not ended within the time given")

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


def as_json(body: Mapping[str, Any]) -> bytes:
    """A body to send. A NaN goes as Python writes it, so that the server answers which field has it."""
    return json.dumps(body).encode()


def decode_event(frame: Frame) -> Event:
    event: Event = json.loads(frame.data)
    return event


def refusal(answer: httpx.Response) -> RefusedError:
    """The exception for an error answer, from its problem document if it has one."""
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    status = answer.status_code
    kind = ERROR_CLASSES.get(status, ServerFaultError if status >= 500 else RefusedError)
    return kind(status, problem)


def stream_refusal(error: Json) -> RefusedError:
    """The exception for an error inside a stream that had begun well."""
    status = STREAM_STATUSES.get(error.get("type") or "", 500)
    kind = ERROR_CLASSES.get(status, ServerFaultError if status >= 500 else RefusedError)
    return kind(status, {"detail": error["message"], **error})


def retry_after(answer: httpx.Response) -> float:
    """The Retry-After header in seconds, 0 without one."""
    try:
        return float(answer.headers.get("retry-after", 0))
    except ValueError:
        return 0.0
