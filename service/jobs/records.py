"""What the job model stores, decoded: job records, checkpoints, claims."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Any
Fields = Mapping[str, str]

PREFIX = "gradmill:"
STATES = ("queued", "running", "cancelling", "paused", "succeeded", "failed", "cancelled")
TERMINAL = frozenset({"succeeded", "failed", "cancelled"})


def key(*parts: str) -> str:
    """A key of the store: ``key("job", id, "events")``."""
    return PREFIX + ":".join(parts)


def text(value: Any) -> str:
    """A reply of the server as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def flat(values: Sequence[Any]) -> dict[str, str]:
    """``[field, value, field, value, …]`` as a mapping."""
    return {text(values[i]): text(values[i + 1]) for i in range(0, len(values), 2)}


def _json(fields: Fields, name: str, default: Json = None) -> Json:
    value = fields.get(name)
    return json.loads(value) if value else default


def _time(fields: Fields, name: str) -> int | None:
    value = fields.get(name)
    return int(value) if value else None


@dataclass(frozen=True)
class Attempt:
    """One claim of a job. Times are milliseconds since the epoch."""

    n: int
    worker: str
    started_at: int
    ended_at: int | None
    outcome: str | None
    engine_version: str = ""
    numerics_version: str = ""


@dataclass(frozen=True)
class JobRecord:
    """A job as the store has it. Times are milliseconds since the epoch; ``attempt`` is the fencing token."""

    id: str
    kind: str
    name: str
    state: str
    owner: str
    lane: str
    priority: int
    ephemeral: bool
    spec: Json
    estimate: dict[str, Json]
    metadata: dict[str, str]
    created_at: int
    started_at: int | None
    ended_at: int | None
    attempt: int
    attempts: tuple[Attempt, ...]
    failures: int
    max_attempts: int
    timeout_s: float
    ran_ms: int
    worker: str | None
    pausing: bool
    progress: Json
    result: Json
    error: Json
    seq: int
    retry_of: str | None
    repeat_of: str | None
    resume: str
    engine_version: str
    numerics_version: str
    mixed_numerics: bool

    @property
    def is_terminal(self) -> bool:
        """Whether the state will never change again."""
        return self.state in TERMINAL


def job_record(fields: Fields) -> JobRecord:
    """The record of a job from its hash."""
    attempts = (
        Attempt(**{"ended_at": None, "outcome": None, **each}) for each in _json(fields, "attempts", [])
    )
    return JobRecord(
        id=fields["id"],
        kind=fields["kind"],
        name=fields.get("name", ""),
        state=fields["state"],
        owner=fields["owner"],
        lane=fields["lane"],
        priority=int(fields["priority"]),
        ephemeral=fields.get("ephemeral") == "1",
        spec=_json(fields, "spec", {}),
        estimate=_json(fields, "estimate", {}),
        metadata=_json(fields, "metadata", {}),
        created_at=int(fields["created_at"]),
        started_at=_time(fields, "started_at"),
        ended_at=_time(fields, "ended_at"),
        attempt=int(fields["attempt"]),
        attempts=tuple(attempts),
        failures=int(fields["failures"]),
        max_attempts=int(fields.get("max_attempts", "1")),
        timeout_s=float(fields.get("timeout_s", "0")),
        ran_ms=int(float(fields.get("ran_ms") or 0)),
        worker=fields.get("worker") or None,
        pausing=fields.get("want") == "pause",
        progress=_json(fields, "progress"),
        result=_json(fields, "result"),
        error=_json(fields, "error"),
        seq=int(fields.get("seq", "0")),
        retry_of=fields.get("retry_of") or None,
        repeat_of=fields.get("repeat_of") or None,
        resume=fields.get("resume", "same"),
        engine_version=fields.get("engine_version", ""),
        numerics_version=fields.get("numerics_version", ""),
        mixed_numerics=fields.get("mixed_numerics") == "1",
    )


@dataclass(frozen=True)
class Claim:
    """What a worker gets: the job, and the token that every later call must carry."""

    job: JobRecord
    token: int
    time_left_s: float
    stored_seq: int  # events up to this one are in segment blobs
    missing_tickets: int = 0  # that the lane lacks now; whoever claims sends for them


@dataclass(frozen=True)
class Segment:
    """A blob that holds the events ``first`` to ``last``."""

    first: int
    last: int
    blob: str

    def to_json(self) -> str:
        """The form in which the store keeps it."""
        return json.dumps({"first": self.first, "last": self.last, "blob": self.blob})


def segments(values: Iterable[Any]) -> list[Segment]:
    """The entries of a job's list of segments."""
    return [Segment(**json.loads(value)) for value in values]


def checkpoints(values: Mapping[Any, Any]) -> list[dict[str, Json]]:
    """A job's manifests in order of their steps."""
    return sorted((json.loads(value) for value in values.values()), key=lambda each: int(each["step"]))
