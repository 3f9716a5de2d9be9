"""The shapes of the job API's answers, as its Python client sees them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Json = dict[str, Any]
JsonList = list[Json]
Series = dict[str, dict[str, list[Any]]]  # name → {"steps": […], "values": […]}
State = Literal["queued", "running", "cancelling", "paused", "succeeded", "failed", "cancelled"]
TERMINAL_STATES = frozenset({"succeeded", "failed", "cancelled"})


class Attempt(TypedDict):
    n: int
    worker: str
    started_at: str
    ended_at: str | None
    outcome: str | None


class Problem(TypedDict):
    code: str
    message: str


class Progress(TypedDict):
    step: int
    steps: int
    eta_s: NotRequired[float | None]


class Job(TypedDict):
    """A job as the API gives it; times are RFC 3339 in UTC."""

    id: str
    kind: str
    name: str | None
    state: State
    pausing: bool
    spec: Json
    metadata: dict[str, str]
    priority: int
    created_at: str
    started_at: str | None
    ended_at: str | None
    attempt: int
    attempts: list[Attempt]
    failures: int
    max_attempts: int
    timeout_s: float | None
    progress: Progress | None
    result: Json | None
    error: Problem | None
    last_seq: int
    queue_position: NotRequired[int | None]
    estimated_start: NotRequired[str | None]
    retry_of: NotRequired[str | None]
    links: dict[str, str]


class Event(TypedDict):
    """One entry of a job's log; ``seq`` counts from 1 without gaps."""

    seq: int
    type: str
    time: str
    attempt: int
    data: Json


class Page(TypedDict):
    data: list[Job]
    has_more: bool
    last_id: NotRequired[str | None]
