"""The calls of the job model: pure functions that build a :class:`Call`, and two ways to run one.

``run(redis, call)`` is for workers (``redis.Redis``), ``await arun(redis, call)`` for the API
(``redis.asyncio.Redis``). Connections must return bytes. Every call may be sent again after a lost reply.

| call | answer |
|---|---|
| ``accept(new, …)`` | :class:`Accepted`: ``accepted``, ``replayed``, ``conflict``, ``quota``, ``space`` |
| ``claim(lane, worker, nonce, lease_ms)`` | :class:`Claim`, or None when nothing is queued |
| ``append(job, token, first, events)`` | :class:`Appended`; ``first`` counts this attempt's events before |
| ``checkpoint(job, token, manifest, segment)`` | verb |
| ``release(job, token, reason, code, message)`` | :class:`Released`: new state, ``already`` or ``fenced`` |
| ``finish(job, token, outcome, …)`` | the new state, ``already``, ``fenced``, ``gap`` or ``refused`` |
| ``cancel(job)``, ``pause(job)``, ``resume(job)``, ``remove(job)`` | :class:`Changed`; None: unknown job |
| ``sweep(limit)`` | ``[(job id, new state), …]`` of the jobs whose lease was over |
| ``heartbeat(worker, lane, description)`` | tickets the lane lacks |
| ``leave(worker, lane)`` | whether it was on the list |
| ``held(worker)`` | :class:`Held`, or None: what a parent releases when its child has died |
| ``lane_state(lane)`` | :class:`LaneState` |
| ``places(jobs)`` | :class:`Place` of each |

A **verb** says what the attempt does next: ``go``; ``cancel``: stop and ``finish(…, "cancelled")``;
``pause``: checkpoint and ``release(…, "pause")``; ``fenced``: the job is no longer yours, write nothing more;
``gap``: a wrong ``first``, a bug. ``append`` renews the lease, also with no events. Events are
``(type, data)``; data is JSON with non-finite numbers as null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import NoScriptError

from service.jobs.events import EVENT_TYPES
from service.jobs.records import Claim, Json, Segment, flat, job_record, text
from service.jobs.scripts import Script, script

T = TypeVar("T")
Event = tuple[str, Mapping[str, Json]]

LEASE_MS = 10_000
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
EVENTS_KEPT = 20_000


@dataclass(frozen=True)
class Call(Generic[T]):
    """A script, its arguments, and how its reply is read."""

    script: Script
    args: tuple[str | int, ...]
    decode: Callable[[Any], T]


def run(redis: Redis, call: Call[T]) -> T:
    """Runs a call on a synchronous connection."""
    try:
        reply = redis.evalsha(call.script.sha, 0, *call.args)
    except NoScriptError:
        reply = redis.eval(call.script.text, 0, *call.args)
    return call.decode(reply)


async def arun(redis: AsyncRedis, call: Call[T]) -> T:
    """Runs a call on an asynchronous connection."""
    try:
        reply = await redis.evalsha(call.script.sha, 0, *call.args)
    except NoScriptError:
        reply = await redis.eval(call.script.text, 0, *call.args)
    return call.decode(reply)


def dumps(value: Json) -> str:
    """Compact JSON; NaN and infinities are refused with ValueError."""
    return _ENCODER.encode(value)


def _flat_events(events: Sequence[Event]) -> list[str]:
    for type_, _ in events:
        if type_ not in EVENT_TYPES:
            raise ValueError(f"event type {type_!r}: must be one of {', '.join(sorted(EVENT_TYPES))}")
    return [part for type_, data in events for part in (type_, dumps(data))]


@dataclass(frozen=True)
class NewJob:
    """Everything that is fixed when a job is accepted."""

    id: str
    kind: str
    lane: str
    spec: Json
    estimate: Mapping[str, Json] = field(default_factory=dict)
    owner: str = "local"
    name: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    timeout_s: int = 86_400
    max_attempts: int = 3
    ephemeral: bool = False
    retry_of: str = ""
    repeat_of: str = ""
    resume: str = "same"
    engine_version: str = ""
    numerics_version: str = ""


@dataclass(frozen=True)
class Limits:
    """What an owner may have at a time: jobs queued, jobs running, bytes stored. 0: no bound."""

    queued: int
    running: int
    bytes: int


NO_LIMITS = Limits(0, 0, 0)


@dataclass(frozen=True)
class Usage:
    """What an owner has now of what :class:`Limits` bound."""

    queued: int
    running: int
    bytes: int


@dataclass(frozen=True)
class Accepted:
    """``job`` stands for the request, if that isn't refused; ``usage`` is its owner's, with it.

    The rest is told of ``accepted`` jobs only: ``created_at`` in milliseconds; ``place`` and ``start_at`` as
    :class:`Place` has them.
    """

    outcome: str
    job: str
    missing_tickets: int
    created_at: int
    place: int
    start_at: int
    usage: Usage


def _accepted(reply: Any) -> Accepted:
    outcome, job, missing, created_at, place, start_at, *usage = reply
    numbers = (int(missing), int(created_at), int(place), int(start_at))
    return Accepted(text(outcome), text(job), *numbers, Usage(*map(int, usage)))


def accept(
    new: NewJob, *, idempotency: str = "", body_sha: str = "", limits: Limits = NO_LIMITS
) -> Call[Accepted]:
    """Queues a job once per idempotency scope, within the limits of its owner."""
    record: dict[str, str | int] = {
        "name": new.name,
        "spec": dumps(new.spec),
        "estimate": dumps(new.estimate),
        "estimate_ms": round(1000 * new.estimate.get("seconds", 0)),
        "metadata": dumps(new.metadata),
        "timeout_s": new.timeout_s,
        "max_attempts": new.max_attempts,
        "retry_of": new.retry_of,
        "repeat_of": new.repeat_of,
        "resume": new.resume,
        "most_running": limits.running,
        "engine_version": new.engine_version,
        "numerics_version": new.numerics_version,
    }
    quota = (limits.queued, limits.bytes)
    head = (new.id, new.owner, idempotency, body_sha, *quota, new.lane, new.kind, new.priority)
    pairs = tuple(part for pair in record.items() for part in pair)
    return Call(script("accept"), (*head, "1" if new.ephemeral else "", *pairs), _accepted)


@dataclass(frozen=True)
class Kept:
    """Whether the file is recorded, and the bytes that its owner has stored now."""

    done: bool
    bytes: int


def keep_file(file_id: str, record: Mapping[str, Json], most_bytes: int = 0) -> Call[Kept]:
    """Records an uploaded file unless its owner would have more than ``most_bytes`` (0: no bound)."""
    args = (file_id, str(record["owner"]), int(record["bytes"]), most_bytes, dumps(record))
    return Call(script("keep_file"), args, lambda reply: Kept(bool(reply[0]), int(reply[1])))


def drop_file(file_id: str) -> Call[bool]:
    """Forgets an uploaded file; whether it was there."""
    return Call(script("drop_file"), (file_id,), bool)


def _claim(reply: Any) -> Claim | None:
    if not reply:
        return None
    _, token, time_left, stored, missing, fields = reply
    return Claim(
        job=job_record(flat(fields)),
        token=int(token),
        time_left_s=float(time_left) / 1000,
        stored_seq=int(stored),
        missing_tickets=int(missing),
    )


def claim(
    lane: str,
    worker: str,
    nonce: str,
    lease_ms: int = LEASE_MS,
    *,
    engine_version: str = "",
    numerics_version: str = "",
) -> Call[Claim | None]:
    """Takes the lane's next job; the nonce is new for every claim that is meant anew."""
    args = (lane, worker, nonce, lease_ms, engine_version, numerics_version)
    return Call(script("claim"), args, _claim)


@dataclass(frozen=True)
class Appended:
    """What to do next, how many events this attempt has appended, and the job's last seq."""

    verb: str
    appended: int
    seq: int


def append(job: str, token: int, first: int, events: Sequence[Event]) -> Call[Appended]:
    """Appends events and renews the lease."""
    return Call(
        script("append"),
        (job, token, first, *_flat_events(events)),
        lambda reply: Appended(text(reply[0]), int(reply[1]), int(reply[2])),
    )


def checkpoint(
    job: str,
    token: int,
    manifest: Mapping[str, Json],
    segment: Segment | None = None,
    events_kept: int = EVENTS_KEPT,
) -> Call[str]:
    """Records a checkpoint whose blobs are stored.

    ``manifest`` is {step, weights, optimizer, state, bytes, val_loss?, sample?, engine_version?,
    numerics_version?, mixed_numerics?}: ``sample`` keeps the weights when the whole checkpoint is dropped.
    ``segment`` holds the events since the last one; the stream keeps its last ``events_kept`` and everything
    that is in no segment yet.
    """
    stored = dumps({**manifest, "attempt": token})
    packed = segment.to_json() if segment else ""
    return Call(
        script("checkpoint"),
        (job, token, int(manifest["step"]), stored, packed, events_kept),
        lambda reply: text(reply[0]),
    )


@dataclass(frozen=True)
class Released:
    """The job's new state (or ``already``, ``fenced``), and the tickets that its lane lacks."""

    outcome: str
    missing_tickets: int
    lane: str


def release(job: str, token: int, reason: str, code: str = "crash", message: str = "") -> Call[Released]:
    """Gives a job back: ``shutdown``, ``crash`` queue it, ``pause`` parks it; only ``crash`` is a failure."""
    return Call(
        script("release"),
        (job, token, reason, code, message),
        lambda reply: Released(text(reply[0]), int(reply[1]), text(reply[2])),
    )


@dataclass(frozen=True)
class Model:
    """A model that a job publishes: its record and the alias that shall name it from now on."""

    id: str
    record: Mapping[str, Json]
    alias: str = ""


def finish(
    job: str,
    token: int,
    outcome: str,
    *,
    result: Json = None,
    code: str = "",
    message: str = "",
    model: Model | None = None,
    first: int = 0,
    events: Sequence[Event] = (),
) -> Call[str]:
    """Ends a job, after its last events: ``succeeded``, ``failed`` (code and message) or ``cancelled``."""
    return Call(
        script("finish"),
        (
            job,
            token,
            outcome,
            "" if result is None else dumps(result),
            code,
            message,
            model.id if model else "",
            dumps(model.record) if model else "",
            model.alias if model else "",
            first,
            *_flat_events(events),
        ),
        lambda reply: text(reply[0]),
    )


@dataclass(frozen=True)
class Changed:
    """A job's state after a request, and whether the request had an effect (``pause``: whether it holds)."""

    state: str
    done: bool
    missing_tickets: int = 0
    lane: str = ""


def _changed(reply: Any) -> Changed | None:
    if not reply:
        return None
    tickets, lane = (int(reply[2]), text(reply[3])) if len(reply) > 2 else (0, "")
    return Changed(text(reply[0]), bool(reply[1]), tickets, lane)


def cancel(job: str) -> Call[Changed | None]:
    """Asks for a job's end; a running one is ``cancelling`` until its worker confirms."""
    return Call(script("cancel"), (job,), _changed)


def pause(job: str) -> Call[Changed | None]:
    """Asks a job to checkpoint and wait."""
    return Call(script("pause"), (job,), _changed)


def resume(job: str) -> Call[Changed | None]:
    """Queues a paused job again."""
    return Call(script("resume"), (job,), _changed)


def remove(job: str) -> Call[Changed | None]:
    """Deletes a job that has ended."""
    return Call(script("remove"), (job,), _changed)


def sweep(limit: int = 100) -> Call[list[tuple[str, str]]]:
    """Takes jobs back whose lease is over."""
    return Call(
        script("sweep"),
        (limit,),
        lambda reply: [(text(reply[i]), text(reply[i + 1])) for i in range(0, len(reply), 2)],
    )


def heartbeat(worker: str, lane: str, description: Mapping[str, Json]) -> Call[int]:
    """Says that a worker lives; workers send it every 5 s and count as gone after 15 s."""
    return Call(script("heartbeat"), (worker, lane, dumps({**description, "lane": lane})), int)


def leave(worker: str, lane: str) -> Call[bool]:
    """Takes a worker off the list."""
    return Call(script("leave"), (worker, lane), bool)


@dataclass(frozen=True)
class Held:
    """The attempt that a worker holds, the job's state and the attempt's verb."""

    job: str
    token: int
    state: str
    verb: str


def held(worker: str) -> Call[Held | None]:
    """What a worker holds right now."""
    return Call(
        script("held"),
        (worker,),
        lambda reply: Held(text(reply[0]), int(reply[1]), text(reply[2]), text(reply[3])) if reply else None,
    )


@dataclass(frozen=True)
class LaneState:
    """How a lane stands; ``oldest_at`` is when its first job was created, 0 if none. Milliseconds."""

    missing_tickets: int
    queued: int
    live_workers: int
    oldest_at: int
    now: int


def lane_state(lane: str) -> Call[LaneState]:
    """How a lane stands."""
    return Call(script("lane"), (lane,), lambda reply: LaneState(*(int(part) for part in reply)))


@dataclass(frozen=True)
class Place:
    """Which of the claims to come takes a queued job, from 1, and when (ms) if estimates hold.

    0 where there is none: the job isn't queued, or no worker lives.
    """

    place: int
    start_at: int


NOWHERE = Place(0, 0)


def places(jobs: Sequence[str]) -> Call[list[Place]]:
    """Where jobs stand in the queues of their lanes."""
    return Call(
        script("place"),
        tuple(jobs),
        lambda reply: [Place(int(reply[i]), int(reply[i + 1])) for i in range(0, len(reply), 2)],
    )
