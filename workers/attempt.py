"""One claim of one job: its lease, its events, and the orders that come back with each renewal.

A thread appends what the handler has to say every ``flush_s``, and renews the lease at least every
``renew_s``. It does so only while the handler makes progress: one that hangs loses its job.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from service.blobs import BlobStore
from service.jobs import calls
from service.jobs.events import store_segment
from service.jobs.records import Claim
from service.versions import ENGINE_VERSION, NUMERICS_VERSION
from workers.metrics import MetricColumns
from workers.pace import Pace
from workers.resume import numerics_of
from workers.stop import Reason, Stop

log = logging.getLogger(__name__)

PROGRESS_EVERY_S = 1.0
FORCED_EXIT = 70
PATIENCE_FACTOR = 10.0
SENT_KEPT = 4096  # for a server that lost its last second and asks again


@dataclass(frozen=True)
class Timing:
    """Seconds. An order may be ignored for ``grace_s``; a step may always take ``stall_s``."""

    flush_s: float
    renew_s: float
    grace_s: float
    stall_s: float


class Attempt:
    """Use as a context manager: the lease is kept from entry to exit.

    Handlers call ``check`` often, and say what happens with ``metric``, ``progress``, ``emit`` and ``log``.
    """

    def __init__(
        self,
        redis: Redis,
        claim: Claim,
        starting_points: Sequence[dict[str, Any]],
        timing: Timing,
        stop: threading.Event,
    ) -> None:
        self.job = claim.job
        self.token = claim.token
        self.starting_points = starting_points  # manifests, best first
        self._mixed_numerics = False
        self._stored_seq = claim.stored_seq
        self._redis = redis
        self._timing = timing
        self._stop = stop
        self._deadline = time.monotonic() + claim.time_left_s if claim.job.timeout_s else float("inf")
        self._lock = threading.Lock()  # guards what the handler has said
        self._sending = threading.Lock()  # one call at a time, so that `_sent` is right
        self._said: list[calls.Event] = []
        self._recent: deque[calls.Event] = deque(maxlen=SENT_KEPT)
        self._metrics = MetricColumns()
        self._pace = Pace()
        self._progress_said = (-1, 0.0)
        self._patient = 0
        self._sent = 0
        self._last_call = time.monotonic()
        self._verb = "go"
        self._order_since = 0.0
        self._closing = threading.Event()
        self._keeper = threading.Thread(
            target=copy_context().run, args=(self._keep,), name="lease", daemon=True
        )

    def __enter__(self) -> Attempt:
        self._keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._keeper.join()

    # What handlers call ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises Stop when the attempt shall end; also the sign that the handler goes on working."""
        self._pace.tick()
        if (reason := self._reason()) is not None:
            raise Stop(reason)

    def emit(self, type_: str, data: Mapping[str, Any]) -> None:
        """Says something; it is in the job's log within ``flush_s``. ValueError if it isn't JSON in UTF-8."""
        calls.dumps(data).encode()
        with self._lock:
            self._close_metrics()
            self._said.append((type_, data))

    def log(self, level: str, message: str) -> None:
        """One line for the job's log; level is ``info``, ``warning`` or ``error``."""
        self.emit("log", {"level": level, "message": message})

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Says when a stage begins and how many seconds it took."""
        self.emit("stage", {"name": name, "state": "started"})
        started = time.monotonic()
        with self.patience():
            yield
        seconds = round(time.monotonic() - started, 3)
        self.emit("stage", {"name": name, "state": "ended", "seconds": seconds})

    @contextmanager
    def patience(self, needed: bool = True) -> Iterator[None]:
        """Inside, more time may pass between two checks: something that happens seldom and takes long."""
        self._patient += needed
        try:
            yield
        finally:
            self._patient -= needed
            if needed:
                self._pace.alive()

    def generated(self, index: int, token: Mapping[str, Any]) -> None:
        """A generated token of continuation ``index``; those between two flushes become one event."""
        with self._lock:
            last_type, last = self._said[-1] if self._said else ("", {})
            if last_type == "token" and last["index"] == index:
                last["tokens"].append(token)
            else:
                self._said.append(("token", {"index": index, "tokens": [token]}))

    def metric(self, step: int, **values: float) -> None:
        """Numbers of one step; what is said between two flushes becomes one event."""
        with self._lock:
            self._metrics.add(step, values)

    def progress(self, step: int, steps: int) -> None:
        """How far the job is; said about once a second, with the time left at the present pace."""
        with self._lock:
            self._pace.reached(step, steps)

    def goes_on_from(self, manifest: dict[str, Any]) -> None:
        """Notes which of the starting points was restored, so that what is saved tells of mixed numerics."""
        is_other = numerics_of(manifest) != NUMERICS_VERSION
        self._mixed_numerics = is_other or bool(manifest.get("mixed_numerics"))

    def save(self, manifest: Mapping[str, Any], store: BlobStore) -> None:
        """Records a checkpoint whose blobs are stored, and stores the events up to now beside it.

        Raises Stop when the job is no longer this attempt's.
        """
        stored = {
            **manifest,
            "engine_version": ENGINE_VERSION,
            "numerics_version": NUMERICS_VERSION,
            **({"mixed_numerics": True} if self._mixed_numerics else {}),
        }
        self.flush()
        segment = store_segment(self._redis, store, self.job.id, self._stored_seq)
        verb = calls.run(self._redis, calls.checkpoint(self.job.id, self.token, stored, segment))
        if segment is not None:
            self._stored_seq = segment.last
        self._obey(verb)
        if verb == "fenced":
            raise Stop(Reason.FENCED)

    def flush(self) -> int:
        """Sends what was said so far; the job's last seq, 0 when the job is no longer this attempt's."""
        with self._sending:
            return self._append_all().seq

    # The end ---------------------------------------------------------------------------------------------

    def finish(
        self,
        outcome: str,
        *,
        result: Any = None,
        code: str = "",
        message: str = "",
        model: calls.Model | None = None,
    ) -> str:
        """Ends the job after its last events; the new state, or ``fenced``, ``already``, ``refused``."""
        with self._sending:
            self._say_last_progress()
            self._append_all()
            end = {"result": result, "code": code, "message": message, "model": model}
            call = calls.finish(self.job.id, self.token, outcome, first=self._sent, **end)
            state = calls.run(self._redis, call)
        if state in ("fenced", "refused"):
            log.warning("job %s: attempt %d ended as %s: %s", self.job.id, self.token, outcome, state)
        return state

    def release(self, reason: str, code: str = "", message: str = "") -> calls.Released:
        """Gives the job back without an outcome."""
        self._say_last_progress()
        self.flush()
        return calls.run(self._redis, calls.release(self.job.id, self.token, reason, code, message))

    # The lease thread ------------------------------------------------------------------------------------

    def _keep(self) -> None:
        while not self._closing.wait(self._timing.flush_s):
            try:
                self._force_what_is_ignored()
                with self._sending:
                    if self._has_something() or time.monotonic() - self._last_call >= self._timing.renew_s:
                        self._append()
            except RedisError:
                log.warning(
                    "job %s: Redis does not answer; the lease may run out", self.job.id, exc_info=True
                )

    def _force_what_is_ignored(self) -> None:
        """Ends the process when the handler neither works nor listens; another attempt may go on."""
        now, grace = time.monotonic(), self._timing.grace_s
        stall_s = self._timing.stall_s * (PATIENCE_FACTOR if self._patient else 1)
        if self._pace.silent_for() > self._pace.allowed(stall_s):
            self._leave("stalled", "The job made no progress and its worker ended it.")
        elif now > self._deadline + grace and self._pace.silent_for() > grace:
            self.finish("failed", code="timeout", message=timeout_message(self.job.timeout_s))
            os._exit(FORCED_EXIT)
        elif self._verb == "cancel" and min(now - self._order_since, self._pace.silent_for()) > grace:
            self.finish("cancelled")
            os._exit(FORCED_EXIT)

    def _leave(self, code: str, message: str) -> None:
        log.error("job %s: %s", self.job.id, message)
        self.release("crash", code, message)
        os._exit(FORCED_EXIT)

    def _has_something(self) -> bool:
        with self._lock:
            return bool(self._said or self._metrics or self._progress_is_due())

    def _progress_is_due(self) -> bool:
        step, at = self._progress_said
        return self._pace.step != step and time.monotonic() - at >= PROGRESS_EVERY_S

    def _say_last_progress(self) -> None:
        with self._lock:
            self._progress_said = (self._progress_said[0], float("-inf"))

    def _take(self) -> list[calls.Event]:
        with self._lock:
            self._close_metrics()
            if self._progress_is_due():
                self._said.append(("progress", self._pace.report()))
                self._progress_said = (self._pace.step, time.monotonic())
            said, self._said = self._said, []
        return said

    def _close_metrics(self) -> None:
        if self._metrics:
            self._said.append(("metric", self._metrics.take()))

    def _append_all(self) -> calls.Appended:
        while (answer := self._append()).verb == "gap":
            pass
        return answer

    def _append(self) -> calls.Appended:
        """Sends what is new. The caller holds ``_sending``."""
        events = self._take()
        try:
            answer = calls.run(self._redis, calls.append(self.job.id, self.token, self._sent, events))
        except RedisError:
            with self._lock:
                self._said[:0] = events
            raise
        self._last_call = time.monotonic()
        self._recent.extend(events)
        self._sent += len(events)
        if answer.verb == "gap":
            self._resend_from(answer.appended)
        else:
            self._obey(answer.verb)
        return answer

    def _resend_from(self, appended: int) -> None:
        """Puts events that the server has lost in front of those still to be sent."""
        lost = list(self._recent)[-(self._sent - appended) :] if self._sent > appended else []
        log.warning("job %s: the server has lost events; %d are sent again", self.job.id, len(lost))
        with self._lock:
            self._said[:0] = lost
        for _ in lost:
            self._recent.pop()
        self._sent = appended

    # Orders ----------------------------------------------------------------------------------------------

    def _obey(self, verb: str) -> None:
        if verb != self._verb:
            self._verb = verb
            self._order_since = time.monotonic()

    def _reason(self) -> Reason | None:
        if self._verb in VERBS:
            return VERBS[self._verb]
        if self._stop.is_set():
            return Reason.SHUTDOWN
        if time.monotonic() > self._deadline:
            return Reason.TIMEOUT
        return None


VERBS = {"cancel": Reason.CANCEL, "pause": Reason.PAUSE, "fenced": Reason.FENCED}


def timeout_message(timeout_s: float) -> str:
    return f"The job ran longer than its timeout_s of {timeout_s:g} s."
