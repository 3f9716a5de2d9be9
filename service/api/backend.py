"""Everything a route needs, in one object; found at ``request.app.state.backend``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fastapi import Request
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import RedisError

from service.api.changes import ChangeFeed
from service.api.gather import Gatherer
from service.api.hub import Hub
from service.api.keys import KeyRing, Principal, load_keys
from service.api.log import EventLog
from service.api.logtext import LogText
from service.api.metrics import Metrics
from service.api.prometheus import Meter, Overview
from service.api.stream import Refusal
from service.blobs import CollectedStore, open_folder
from service.errors import NotFoundError
from service.ids import is_id
from service.jobs import tickets
from service.jobs.calls import NOWHERE, Place, arun, places
from service.jobs.connection import aconnect, connect
from service.jobs.records import JobRecord, job_record, key, text
from service.settings import Settings

log = logging.getLogger(__name__)

READER_TIMEOUT_S = 3.0  # longer than the hub's blocking read


@dataclass
class Waker:
    """Sends for tickets in a thread, since RQ is synchronous; one errand a lane at a time."""

    redis: Redis
    _errands: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _again: set[str] = field(default_factory=set)

    def wake(self, lane: str, missing_tickets: int) -> None:
        """Makes sure that the lane gets its tickets soon."""
        if missing_tickets == 0:
            return
        if lane in self._errands:
            self._again.add(lane)
        else:
            self._errands[lane] = asyncio.create_task(self._run(lane, missing_tickets))

    async def _run(self, lane: str, missing_tickets: int) -> None:
        try:
            await asyncio.to_thread(tickets.push, self.redis, lane, missing_tickets)
            while lane in self._again:
                self._again.discard(lane)
                await asyncio.to_thread(tickets.wake, self.redis, lane)
        except RedisError as error:
            log.warning("lane %s got no tickets, the sweeper will send them: %s", lane, error)
        finally:
            del self._errands[lane]
            self._again.discard(lane)


@dataclass
class Backend:
    """The parts behind the API, one of each a process."""

    settings: Settings
    redis: AsyncRedis
    blobs: CollectedStore
    log: EventLog
    hub: Hub
    changes: ChangeFeed
    metrics: Gatherer[Metrics]
    texts: Gatherer[LogText]
    waker: Waker
    keys: KeyRing
    meter: Meter
    overview: Overview

    async def job(self, job_id: str, principal: Principal) -> JobRecord:
        """A job that the caller may see. NotFoundError for any other."""
        fields = await answer(self.redis.hgetall(key("job", job_id))) if is_id(job_id, "job") else {}
        if fields:
            job = job_record({text(name): text(value) for name, value in fields.items()})
            if principal.may_see(job.owner):
                return job
        raise NotFoundError(f"There is no job {job_id!r}.", code="unknown-job", param="job_id")

    async def place(self, job: JobRecord) -> Place:
        """Where the job stands in its lane's queue."""
        return (await self.places([job]))[job.id]

    async def places(self, jobs: Sequence[JobRecord]) -> dict[str, Place]:
        """Where each of the jobs stands in its lane's queue."""
        queued = [job.id for job in jobs if job.state == "queued"]
        found = await arun(self.redis, places(queued)) if queued else []
        return {job.id: NOWHERE for job in jobs} | dict(zip(queued, found, strict=True))

    def end_streams(self) -> None:
        """Ends what is open without an end of its own. From the loop's thread only."""
        self.hub.close()
        self.changes.close()

    async def close(self) -> None:
        """Gives the connections back."""
        await self.changes.stop()
        await self.hub.stop()
        await self.redis.aclose()
        await asyncio.to_thread(self.waker.redis.close)


def make_backend(settings: Settings) -> Backend:
    """The parts, not yet connected."""
    redis = aconnect(settings.redis_url)
    # No retries: each outage must reach the hub, which then compares what it handed out with what is left.
    reader = aconnect(settings.redis_url, timeout_s=READER_TIMEOUT_S, retries=0)
    blobs = open_folder(settings)
    log_ = EventLog(redis, blobs)
    sync = connect(settings.redis_url, patient=False)
    keys = KeyRing(settings, load_keys(settings.api_key_file), redis)
    return Backend(
        settings=settings,
        redis=redis,
        blobs=blobs,
        log=log_,
        hub=Hub(redis, reader, log_),
        changes=ChangeFeed(redis, reader),
        metrics=Gatherer(log_, Metrics),
        texts=Gatherer(log_, LogText),
        waker=Waker(sync),
        keys=keys,
        meter=Meter(),
        overview=Overview(redis, blobs),
    )


async def answer(reply: Awaitable[Any] | Any) -> Any:
    """Awaits a reply whose type says that it might not be awaitable."""
    return await reply


def backend_of(request: Request) -> Backend:
    """The backend of the application that got this request."""
    backend: Backend = request.app.state.backend
    return backend


def refusal_of(request: Request) -> Refusal:
    """What tells a stream of this request that its key is no longer good."""
    return partial(backend_of(request).keys.refusal, request.headers.get("authorization"))


def principal_of(request: Request) -> Principal:
    """Who sent this request."""
    principal: Principal = request.scope["state"]["principal"]
    return principal
