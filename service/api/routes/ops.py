"""Whether the service works: health, readiness, version, workers, queues."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import Response

from service.api.answers import gives
from service.api.backend import Backend, answer, backend_of, principal_of
from service.api.encoding import JsonResponse
from service.api.prometheus import exposition
from service.errors import UnavailableError
from service.jobs.calls import LaneState, arun, lane_state
from service.jobs.events import rfc3339
from service.jobs.lanes import LANES
from service.jobs.records import key
from service.versions import ENGINE_VERSION, NUMERICS_VERSION
from service.wire import Health, QueueList, Ready, Version, WorkerList

router = APIRouter(tags=["operations"])

READY_S = 2.0


@router.get("/healthz", summary="Whether this process answers", **gives(Health))
async def healthz() -> dict[str, str]:
    """Says nothing of Redis or workers."""
    return {"status": "ok"}


@router.get("/version", summary="What runs here", **gives(Version))
async def version() -> dict[str, str]:
    """The version of the service, which is that of the engine."""
    return {"name": "gradmill", "version": ENGINE_VERSION, "numerics_version": NUMERICS_VERSION}


@router.get(
    "/metrics",
    summary="Read the service's numbers",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def prometheus(request: Request) -> Response:
    """For Prometheus; every process of the API tells of its own requests, and of the whole system's jobs."""
    backend = backend_of(request)
    body = await exposition(backend.meter, backend.overview)
    return Response(body, media_type=CONTENT_TYPE_PLAIN_0_0_4)


async def _lanes(backend: Backend) -> dict[str, LaneState]:
    return {lane: await arun(backend.redis, lane_state(lane)) for lane in LANES}


@router.get("/readyz", summary="Whether Redis and the store work", **gives(Ready))
async def readyz(request: Request) -> Response:
    """503 when either fails. Live workers stand in the body, but the API is ready without any."""
    backend = backend_of(request)
    try:
        async with asyncio.timeout(READY_S):
            lanes = await _lanes(backend)
    except TimeoutError as error:
        raise UnavailableError(
            "Redis does not answer.", code="no-redis", headers={"Retry-After": "1"}
        ) from error
    await asyncio.to_thread(backend.blobs.check)
    workers = {lane: state.live_workers for lane, state in lanes.items()}
    return JsonResponse({"status": "ready", "redis": "ok", "store": "ok", "workers": workers})


@router.get("/v1/queues", summary="How long the queues are", **gives(QueueList))
async def queues(request: Request) -> dict[str, Any]:
    """One entry a lane; ``oldest_age_s`` is null when nothing is queued."""
    lanes = await _lanes(backend_of(request))
    data = [
        {
            "object": "queue",
            "id": lane,
            "queued": state.queued,
            "live_workers": state.live_workers,
            "oldest_age_s": (state.now - state.oldest_at) / 1000 if state.queued else None,
        }
        for lane, state in lanes.items()
    ]
    return {"object": "list", "data": data, "has_more": False}


@router.get("/v1/workers", summary="Who works", **gives(WorkerList))
async def workers(request: Request) -> dict[str, Any]:
    """Workers that said lately that they live, and which of the caller's jobs they hold."""
    redis = backend_of(request).redis
    about = await answer(redis.hgetall(key("workers")))
    seconds, micros = await answer(redis.time())
    now = seconds * 1000 + micros // 1000
    data = []
    for name, description in sorted(about.items()):
        worker = json.loads(description)
        seen = await answer(redis.zscore(key("workers", worker["lane"]), name)) or 0
        job, token = await answer(redis.hmget(key("claim", name.decode()), ["job", "token"]))
        holds = None
        if job is not None:
            fields = ["worker", "attempt", "owner"]
            holder, attempt, owner = await answer(redis.hmget(key("job", job.decode()), fields))
            is_held = holder == name and attempt == token
            holds = job.decode() if is_held and principal_of(request).may_see(owner.decode()) else None
        data.append(
            {
                "object": "worker",
                "id": name.decode(),
                **worker,
                "seen_at": rfc3339(seen),
                "silent_s": (now - int(seen)) / 1000,
                "job": holds,
            }
        )
    return {"object": "list", "data": data, "has_more": False}
