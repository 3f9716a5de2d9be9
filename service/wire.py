"""The shapes of the API's answers: what its document describes, and what its Python client gives.

Times are RFC 3339 in UTC, or whole seconds since the epoch where OpenAI clients expect those.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads the standard library's from Python 3.12 on

Json = dict[str, Any]
JsonList = list[Json]
Series = dict[str, dict[str, list[Any]]]  # name → {"steps": […], "values": […]}
State = Literal["queued", "running", "cancelling", "paused", "succeeded", "failed", "cancelled"]
TERMINAL_STATES = frozenset({"succeeded", "failed", "cancelled"})


class Attempt(TypedDict):
    """One claim of a job by a worker."""

    n: int
    worker: str
    started_at: str
    ended_at: str | None
    outcome: str | None
    engine_version: str | None
    numerics_version: str | None


class Failure(TypedDict):
    """Why a job failed: a code for programs, a sentence for readers."""

    code: str
    message: str


class Progress(TypedDict):
    """How far a job is; ``eta_s`` are the seconds left at the present pace."""

    step: int
    steps: int
    eta_s: NotRequired[float | None]


class Job(TypedDict):
    """A job: what was asked for, how it stands, what came of it."""

    object: NotRequired[Literal["job"]]
    id: str
    kind: str
    name: str | None
    state: State
    pausing: bool
    spec: Json
    estimate: NotRequired[Json]
    metadata: dict[str, str]
    lane: NotRequired[str]
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
    error: Failure | None
    last_seq: int
    queue_position: NotRequired[int | None]
    estimated_start: NotRequired[str | None]
    retry_of: NotRequired[str | None]
    repeat_of: NotRequired[str | None]
    resume: Literal["same", "any"]
    engine_version: str
    numerics_version: str
    mixed_numerics: bool
    links: dict[str, str]


class Estimate(TypedDict):
    """What a spec means with every default written out, and what the job would cost."""

    object: Literal["job.estimate"]
    kind: str
    spec: Json
    lane: str
    estimate: dict[str, float]


class Event(TypedDict):
    """One entry of a job's log; ``seq`` counts from 1 without gaps."""

    seq: int
    type: str
    time: str
    attempt: int
    data: Json


class JobPage(TypedDict):
    """A page of jobs."""

    object: NotRequired[Literal["list"]]
    data: list[Job]
    first_id: NotRequired[str | None]
    last_id: NotRequired[str | None]
    has_more: bool


class EventPage(TypedDict):
    """A page of a job's events; ``has_more`` means that newer ones exist."""

    object: Literal["list"]
    data: list[Event]
    last_seq: int
    has_more: bool


class MetricSeries(TypedDict):
    """Columns of a metric; null where it was not finite."""

    steps: list[int]
    values: list[float | None]


class Metrics(TypedDict):
    """A job's metrics by their names."""

    object: Literal["metrics"]
    job: str
    series: dict[str, MetricSeries]


class Checkpoint(TypedDict):
    """A stored state; from a ``whole`` one a job resumes, the others are weights to sample from."""

    object: Literal["checkpoint"]
    step: int
    weights: str
    bytes: dict[str, int]
    attempt: int
    val_loss: NotRequired[float]
    whole: bool
    best: bool
    links: dict[str, str]


class CheckpointList(TypedDict):
    """All checkpoints of a job, in order of their steps."""

    object: Literal["list"]
    data: list[Checkpoint]
    has_more: Literal[False]


class Artifact(TypedDict):
    """A file that a job left behind. Its id is the sha256 of its content."""

    object: Literal["artifact"]
    id: str
    name: str
    type: str
    bytes: int
    sha256: str
    links: dict[str, str]


class ArtifactList(TypedDict):
    """All artifacts of a job."""

    object: Literal["list"]
    data: list[Artifact]
    has_more: Literal[False]


class File(TypedDict):
    """An uploaded text."""

    object: Literal["file"]
    id: str
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: Literal["processed"]
    characters: int
    vocabulary: int
    sha256: str


class FilePage(TypedDict):
    """A page of files."""

    object: Literal["list"]
    data: list[File]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Model(TypedDict):
    """A published model. ``alias`` is what it was published as, and may name a newer one by now."""

    object: Literal["model"]
    id: str
    created: int
    owned_by: str
    alias: str | None
    job: str | None
    step: int | None
    config: Json | None
    sha256: str


class ModelPage(TypedDict):
    """A page of models."""

    object: Literal["list"]
    data: list[Model]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Alias(TypedDict):
    """A name for a model."""

    object: Literal["alias"]
    id: str
    model: str


class AliasPage(TypedDict):
    """A page of aliases."""

    object: Literal["list"]
    data: list[Alias]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deleted(TypedDict):
    """What was deleted."""

    object: str
    id: str
    deleted: Literal[True]


class Logprobs(TypedDict):
    """Log-probabilities of a continuation's tokens; ``text_offset`` counts from the start of the prompt."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float | None]] | None
    text_offset: list[int]


class Choice(TypedDict):
    """One continuation."""

    index: int
    text: str
    logprobs: Logprobs | None
    finish_reason: Literal["stop", "length"] | None


class Usage(TypedDict):
    """Tokens read and written."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(TypedDict):
    """The continuations of a prompt."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage


class Queue(TypedDict):
    """How a lane stands; ``oldest_age_s`` is null when nothing waits."""

    object: Literal["queue"]
    id: str
    queued: int
    live_workers: int
    oldest_age_s: float | None


class QueueList(TypedDict):
    """All lanes."""

    object: Literal["list"]
    data: list[Queue]
    has_more: Literal[False]


class Worker(TypedDict):
    """A worker that lives, and the caller's job that it holds."""

    object: Literal["worker"]
    id: str
    lane: str
    seen_at: str
    silent_s: float
    job: str | None


class WorkerList(TypedDict):
    """All workers."""

    object: Literal["list"]
    data: list[Worker]
    has_more: Literal[False]


class Limits(TypedDict, total=False):
    """What a key's owner may have at a time, or has."""

    queued: int
    running: int
    bytes: int


class ApiKey(TypedDict):
    """An API key; ``secret``, the key itself, stands only in the answer that creates it."""

    object: Literal["key"]
    id: str
    name: str | None
    owner: str
    scopes: list[str]
    limits: Limits
    created_at: str
    expires_at: str | None
    secret: NotRequired[str]
    last_used_at: NotRequired[str | None]
    usage: NotRequired[Limits]


class KeyPage(TypedDict):
    """A page of keys."""

    object: Literal["list"]
    data: list[ApiKey]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Blob(TypedDict):
    """Stored bytes, named by their sha256."""

    object: Literal["blob"]
    id: str
    bytes: int


class Health(TypedDict):
    """The process answers."""

    status: Literal["ok"]


class Ready(TypedDict):
    """Redis and the store work; live workers of each lane."""

    status: Literal["ready"]
    redis: Literal["ok"]
    store: Literal["ok"]
    workers: dict[str, int]


class Version(TypedDict):
    """What runs here; engines of one numerics version give the same bits."""

    name: str
    version: str
    numerics_version: str


class FieldProblem(TypedDict):
    """A field of the request that breaks a rule: its path, its value as shown, and the rule."""

    param: str
    value: str
    rule: str
    message: str


class OpenAIError(TypedDict):
    """The problem as OpenAI clients read it."""

    message: str
    type: str
    param: str | None
    code: str


class Problem(TypedDict):
    """Why a request was refused (RFC 9457), with the member that OpenAI clients read."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    param: str | None
    errors: list[FieldProblem]
    request_id: str | None
    error: OpenAIError
