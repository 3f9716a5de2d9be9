"""Events of jobs, each exactly once and in order, however often streams break."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpx

from service.client.errors import ServerFaultError
from service.client.jobs import Jobs
from service.client.transport import FIRST_PAUSE_S, Clock, segment
from service.wire import Event, Job, Json

STREAM_PATIENCE_S = 60.0


class Events(Jobs):
    """The part of the client that follows jobs."""

    def wait(self, job_id: str, *, timeout_s: float | None = None) -> Job:
        """Follows a job until it has ended. Raises TimeoutError when ``timeout_s`` passes before that."""
        for _ in self.events(job_id, timeout_s=timeout_s):
            pass
        return self.get(job_id)

    def past_events(self, job_id: str, *, after: int = 0, limit: int = 1000) -> Iterator[Event]:
        """The events a job has so far, page by page."""
        while True:
            page = self._call(
                "GET", f"/v1/jobs/{segment(job_id)}/events", params={"after": after, "limit": limit}
            )
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
        path = f"/v1/jobs/{segment(job_id)}/events"
        while True:
            try:
                for frame in self._stream(path, clock, last_id=str(after) if after else None):
                    if frame.event == "end":
                        return
                    if frame.event == "reset":
                        after = min(after, frame.json().get("last_seq", after))
                        for event in self.past_events(job_id, after=after):
                            after = event["seq"]
                            yield event
                        break
                    if frame.id is None or (event := _event(frame.json()))["seq"] <= after:
                        continue
                    after = event["seq"]
                    yield event
                    clock.check_deadline(job_id)
                else:
                    time.sleep(FIRST_PAUSE_S)  # closed without an end: the server is stopping or starting
            except (httpx.TransportError, ServerFaultError) as error:
                clock.pause_or_raise(self.url, error)
            clock.check_deadline(job_id)

    def follow(
        self,
        jobs: Iterable[str],
        *,
        types: Iterable[str] = (),
        timeout_s: float | None = None,
        patience_s: float = STREAM_PATIENCE_S,
    ) -> Iterator[tuple[str, Event]]:
        """The events of at most 32 jobs over one connection, each with its job's id, until all have ended.

        ``types`` are the types of events that shall come; all without it. Events that the server lost with
        its last second are not told again. Raises as ``events`` does.
        """
        clock = Clock(patience_s, None if timeout_s is None else time.monotonic() + timeout_s)
        cursors = dict.fromkeys(jobs, 0)
        wanted = ",".join(types)
        while cursors:
            params = {
                "jobs": ",".join(cursors),
                "after": ",".join(f"{job}:{seq}" for job, seq in cursors.items() if seq),
                "types": wanted,
            }
            try:
                for frame in self._stream("/v1/events", clock, params=params):
                    data = frame.json()
                    job = data.pop("job")
                    if frame.event == "end":
                        cursors.pop(job, None)
                    elif frame.event == "reset":
                        cursors[job] = data["last_seq"]
                    elif data["seq"] > cursors.get(job, 0):
                        cursors[job] = data["seq"]
                        yield job, _event(data)
                    clock.check_deadline(", ".join(cursors))
                if cursors:
                    time.sleep(FIRST_PAUSE_S)
            except (httpx.TransportError, ServerFaultError) as error:
                clock.pause_or_raise(self.url, error)
            clock.check_deadline(", ".join(cursors))

    def changes(self, *, patience_s: float = STREAM_PATIENCE_S) -> Iterator[Json | None]:
        """The changes of state of all jobs that the list shows, without end.

        None, which comes first, says that changes may have been missed: read the list now.
        """
        clock = Clock(patience_s, None)
        after: str | None = None
        while True:
            params = {"jobs": "*"} | ({"after": after} if after else {})
            try:
                for frame in self._stream("/v1/events", clock, params=params):
                    if frame.event == "reset":
                        after = frame.json()["after"]
                        yield None
                    else:
                        after = frame.id
                        yield frame.json()
                time.sleep(FIRST_PAUSE_S)
            except (httpx.TransportError, ServerFaultError) as error:
                clock.pause_or_raise(self.url, error)


def _event(data: Any) -> Event:
    event: Event = data
    return event
