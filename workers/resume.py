"""Where a job goes on from: its own newest whole checkpoint, else that of the job it retries."""

from __future__ import annotations

from typing import Any

from redis import Redis

from service.jobs.records import Claim, JobRecord, checkpoints, flat, job_record, key

LONGEST_CHAIN = 100  # of retries of retries


def starting_point(redis: Redis, claim: Claim) -> dict[str, Any] | None:
    """The manifest to restore, or None to begin anew.

    A job made by another version of the engine is not gone on from: its numbers might continue differently.
    """
    manifest, job = claim.checkpoint, claim.job
    for _ in range(LONGEST_CHAIN):
        if manifest is not None or job.retry_of is None:
            return manifest
        older = read_job(redis, job.retry_of)
        if older is None or older.engine_version != job.engine_version:
            return None
        job, manifest = older, newest_whole(redis, older.id)
    return None


def read_job(redis: Redis, job_id: str) -> JobRecord | None:
    """A job's record, or None when it is deleted."""
    fields: Any = redis.hgetall(key("job", job_id))
    return job_record(flat([part for pair in fields.items() for part in pair])) if fields else None


def newest_whole(redis: Redis, job_id: str) -> dict[str, Any] | None:
    """The newest checkpoint that has an optimiser's state beside its weights."""
    manifests: Any = redis.hgetall(key("job", job_id, "checkpoints"))
    whole = [each for each in checkpoints(manifests) if each.get("optimizer")]
    return whole[-1] if whole else None
