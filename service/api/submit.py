"""From a request to a queued job: read, prepare, store the text, accept, wake a worker."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from service.api.backend import Backend
from service.api.catalogue import RedisCatalogue
from service.api.keys import Principal
from service.api.problems import invalid_fields
from service.api.quotas import quota_headers
from service.errors import ConflictError, QuotaError, invalid_field
from service.ids import new_id
from service.jobs.calls import NewJob, Place, accept, arun
from service.jobs.records import JobRecord
from service.specs import KINDS, Kind, Prepared, Strict
from service.versions import ENGINE_VERSION, NUMERICS_VERSION

IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}")
RETRY_AFTER_S = 5

Label = Annotated[str, Field(min_length=1, max_length=64)]


class Options(Strict):
    """What every kind of job can be given beside its spec."""

    name: str = Field("", max_length=128, description="what people call it")
    metadata: dict[Label, Annotated[str, Field(max_length=512)]] = Field({}, max_length=16)
    priority: int = Field(0, ge=-10, le=10, description="higher goes first")
    timeout_s: int = Field(86_400, ge=1, le=30 * 86_400, description="most seconds it may run in all")
    resume: Literal["same", "any"] = Field(
        "same", description="whether checkpoints of another numerics version are gone on from"
    )
    max_attempts: int = Field(3, ge=1, le=20, description="attempts that may be lost before it fails")


class JobRequest(Options):
    """The body of ``POST /v1/jobs``."""

    kind: str = Field(description="what to do")
    spec: dict[str, Any] = Field(description="how, in the form of the kind")


@dataclass(frozen=True)
class Submission:
    """A job to be accepted for a caller."""

    kind: str
    prepared: Prepared
    options: Options
    ephemeral: bool = False
    retry_of: str = ""
    repeat_of: str = ""
    idempotency_key: str | None = None
    path: str = "/v1/jobs"
    body: Strict | None = None


def find_kind(name: str) -> Kind:
    """The kind of this name, or InvalidFieldsError."""
    kind = KINDS.get(name)
    if kind is None:
        raise invalid_field("kind", name, f"must be one of {', '.join(KINDS)}")
    return kind


async def prepare(backend: Backend, principal: Principal, kind_name: str, spec: Any) -> Prepared:
    """Reads and prices a spec. InvalidFieldsError names what is wrong with it."""
    kind = find_kind(kind_name)
    try:
        read = kind.spec.model_validate(spec)
    except ValidationError as error:
        raise invalid_fields(error, spec, "spec") from error
    return await kind.prepare(read, RedisCatalogue(backend, principal))


@dataclass(frozen=True)
class Submitted:
    """The job, its place in the queue, headers that tell what is left of the caller's quotas, and whether an
    earlier request with the same key had made it.
    """

    job: JobRecord
    place: Place
    quota: Mapping[str, str]
    replayed: bool = False


async def submit(backend: Backend, principal: Principal, new: Submission) -> Submitted:
    """Queues a job, once for each idempotency key."""
    for content in new.prepared.blobs.values():
        await asyncio.to_thread(backend.blobs.put, content)
    job = NewJob(
        id=new_id("job"),
        kind=new.kind,
        lane=new.prepared.lane,
        spec=new.prepared.spec,
        estimate=new.prepared.estimate,
        owner=principal.owner,
        name=new.options.name,
        metadata=new.options.metadata,
        priority=new.options.priority,
        timeout_s=new.options.timeout_s,
        max_attempts=new.options.max_attempts,
        ephemeral=new.ephemeral,
        retry_of=new.retry_of,
        repeat_of=new.repeat_of,
        resume=new.options.resume,
        engine_version=ENGINE_VERSION,
        numerics_version=NUMERICS_VERSION,
    )
    scope, body_sha = _idempotency(principal, new)
    limits = principal.limits
    accepted = await arun(backend.redis, accept(job, idempotency=scope, body_sha=body_sha, limits=limits))
    if accepted.outcome == "conflict":
        raise ConflictError(
            "This Idempotency-Key was used with another body.",
            code="idempotency-conflict",
            param="Idempotency-Key",
        )
    quota = quota_headers(limits, asdict(accepted.usage))
    if accepted.outcome == "quota":
        raise QuotaError(
            f"{limits.queued} jobs of this key are queued, which is the most allowed.",
            headers={"Retry-After": str(RETRY_AFTER_S), **quota},
        )
    if accepted.outcome == "space":
        raise bytes_quota(limits.bytes, quota)
    backend.waker.wake(job.lane, accepted.missing_tickets)
    if accepted.outcome == "replayed":
        earlier = await backend.job(accepted.job, principal)
        return Submitted(earlier, await backend.place(earlier), quota, replayed=True)
    return Submitted(queued_record(job, accepted.created_at), Place(accepted.place, accepted.start_at), quota)


def bytes_quota(most: int, quota: Mapping[str, str]) -> QuotaError:
    """The problem of a key that has stored all that it may; only deleting helps."""
    return QuotaError(
        f"This key's uploads and checkpoints take the {most} bytes that are allowed: delete files or jobs.",
        code="quota-bytes",
        headers={"x-should-retry": "false", **quota},
    )


def _idempotency(principal: Principal, new: Submission) -> tuple[str, str]:
    """The scope and the body's hash that the store remembers; empty without a key."""
    if new.idempotency_key is None:
        return "", ""
    if IDEMPOTENCY_KEY.fullmatch(new.idempotency_key) is None:
        raise invalid_field(
            "Idempotency-Key", new.idempotency_key, "must be 1 to 255 visible ASCII characters"
        )
    body = new.body.model_dump_json() if new.body else ""
    scope = f"{principal.owner}\n{new.path}\n{new.idempotency_key}"
    return hashlib.sha256(scope.encode()).hexdigest(), hashlib.sha256(body.encode()).hexdigest()


def queued_record(job: NewJob, created_at: int) -> JobRecord:
    """The record that ``accept`` has just written, without asking for it."""
    return JobRecord(
        id=job.id,
        kind=job.kind,
        name=job.name,
        state="queued",
        owner=job.owner,
        lane=job.lane,
        priority=job.priority,
        ephemeral=job.ephemeral,
        spec=job.spec,
        estimate=dict(job.estimate),
        metadata=dict(job.metadata),
        created_at=created_at,
        started_at=None,
        ended_at=None,
        attempt=0,
        attempts=(),
        failures=0,
        max_attempts=job.max_attempts,
        timeout_s=job.timeout_s,
        ran_ms=0,
        worker=None,
        pausing=False,
        progress=None,
        result=None,
        error=None,
        seq=1,
        retry_of=job.retry_of or None,
        repeat_of=job.repeat_of or None,
        resume=job.resume,
        engine_version=job.engine_version,
        numerics_version=job.numerics_version,
        mixed_numerics=False,
    )
