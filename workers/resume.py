"""Where a job goes on from: its own whole checkpoints, newest first, then those of the job it retries."""

from __future__ import annotations

from typing import Any

from redis import Redis

from service.jobs.records import JobRecord, checkpoints, flat, job_record, key
from service.versions import NUMERICS_VERSION

Manifest = dict[str, Any]

LONGEST_CHAIN = 100  # of retries of retries
FIRST_NUMERICS = "1"  # of checkpoints that don't say


def starting_points(redis: Redis, job: JobRecord) -> list[Manifest]:
    """The manifests that may be restored, best first: where one is damaged, the next serves."""
    return [each for each in all_points(redis, job) if is_usable(each, job)]


def is_usable(manifest: Manifest, job: JobRecord) -> bool:
    """Whether this engine continues a checkpoint with the bits of whoever began, or need not."""
    return job.resume == "any" or numerics_of(manifest) == NUMERICS_VERSION


def numerics_of(manifest: Manifest) -> str:
    """The version of the numbers in a checkpoint."""
    version: str = manifest.get("numerics_version", FIRST_NUMERICS)
    return version


def all_points(redis: Redis, job: JobRecord) -> list[Manifest]:
    """The whole checkpoints of a job and of those that it retries."""
    found = whole_checkpoints(redis, job.id)
    here = job
    for _ in range(LONGEST_CHAIN):
        older = read_job(redis, here.retry_of) if here.retry_of else None
        if older is None:
            break
        found += whole_checkpoints(redis, older.id)
        here = older
    return found


def read_job(redis: Redis, job_id: str) -> JobRecord | None:
    """A job's record, or None when it is deleted."""
    fields: Any = redis.hgetall(key("job", job_id))
    return job_record(flat([part for pair in fields.items() for part in pair])) if fields else None


def whole_checkpoints(redis: Redis, job_id: str) -> list[Manifest]:
    """The checkpoints that have an optimiser's state beside their weights, newest first."""
    manifests: Any = redis.hgetall(key("job", job_id, "checkpoints"))
    return [each for each in reversed(checkpoints(manifests)) if each.get("optimizer")]
