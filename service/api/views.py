"""Records as the API shows them."""

from __future__ import annotations

from typing import Any

from service.jobs.calls import NOWHERE, Place
from service.jobs.events import rfc3339
from service.jobs.records import JobRecord


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else rfc3339(milliseconds)


def job_view(job: JobRecord, place: Place = NOWHERE) -> dict[str, Any]:
    """The job object."""
    path = f"/v1/jobs/{job.id}"
    return {
        "object": "job",
        "id": job.id,
        "kind": job.kind,
        "name": job.name or None,
        "state": job.state,
        "pausing": job.pausing,
        "spec": job.spec,
        "estimate": job.estimate,
        "metadata": job.metadata,
        "lane": job.lane,
        "priority": job.priority,
        "created_at": rfc3339(job.created_at),
        "started_at": _time(job.started_at),
        "ended_at": _time(job.ended_at),
        "attempt": job.attempt,
        "attempts": [
            {
                "n": each.n,
                "worker": each.worker,
                "started_at": rfc3339(each.started_at),
                "ended_at": _time(each.ended_at),
                "outcome": each.outcome,
                "engine_version": each.engine_version or None,
                "numerics_version": each.numerics_version or None,
            }
            for each in job.attempts
        ],
        "failures": job.failures,
        "max_attempts": job.max_attempts,
        "timeout_s": job.timeout_s,
        "progress": job.progress,
        "result": job.result,
        "error": job.error,
        "last_seq": job.seq,
        "queue_position": place.place or None,
        "estimated_start": _time(place.start_at or None),
        "retry_of": job.retry_of,
        "repeat_of": job.repeat_of,
        "resume": job.resume,
        "engine_version": job.engine_version,
        "numerics_version": job.numerics_version,
        "mixed_numerics": job.mixed_numerics,
        "links": {
            "self": path,
            "cancel": f"{path}/cancel",
            "events": f"{path}/events",
            "metrics": f"{path}/metrics",
            "logs": f"{path}/logs",
            "checkpoints": f"{path}/checkpoints",
            "artifacts": f"{path}/artifacts",
        },
    }
