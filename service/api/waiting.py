"""Waiting for quick jobs: until a worker has one, or until it has ended."""

from __future__ import annotations

import asyncio

from service.api.backend import Backend
from service.api.hub import Batch, End
from service.errors import UnavailableError
from service.jobs.calls import arun, lane_state
from service.jobs.records import JobRecord

NO_WORKER_S = 2.0


async def until_started(backend: Backend, job: JobRecord) -> None:
    """Returns when something happens to the job. UnavailableError when no worker could do it."""
    if await _has_started(backend, job):
        return
    state = await arun(backend.redis, lane_state(job.lane))
    if state.live_workers == 0:
        raise UnavailableError(
            f"No worker of lane {job.lane} is running: start one with gradmill worker.",
            code="no-worker",
            headers={"Retry-After": "5"},
        )


async def _has_started(backend: Backend, job: JobRecord) -> bool:
    try:
        async with asyncio.timeout(NO_WORKER_S), backend.hub.view(job.id, job.seq) as viewer:
            async for step in viewer.steps():
                if isinstance(step, Batch | End):
                    return True
    except TimeoutError:
        pass
    return False


async def until_ended(backend: Backend, job_id: str, after: int, seconds: float) -> None:
    """Returns when the job has ended or the time is over."""
    try:
        async with asyncio.timeout(seconds), backend.hub.view(job_id, after) as viewer:
            async for step in viewer.steps():
                if isinstance(step, End):
                    return
    except TimeoutError:
        return
