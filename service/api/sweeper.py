"""Takes lost jobs back, replaces missing tickets, collects blobs; in whichever API process holds the lock."""

from __future__ import annotations

import asyncio
import logging
import secrets

from redis.exceptions import RedisError

from service.api.backend import Backend, answer
from service.api.collector import collect
from service.api.retention import forget_old
from service.jobs import tickets
from service.jobs.calls import arun, lane_state, sweep
from service.jobs.lanes import LANES
from service.jobs.records import key

log = logging.getLogger(__name__)

LOCK = key("sweeper")
SWEEP_LIMIT = 100
COLLECT_EVERY_S = 3600.0


async def sweep_forever(backend: Backend) -> None:
    """Sweeps every ``sweep_s`` until cancelled; an outage of Redis only delays it."""
    me = secrets.token_hex(8).encode()
    collected_at = asyncio.get_running_loop().time()
    while True:
        try:
            if await _has_lock(backend, me):
                await sweep_once(backend)
                if asyncio.get_running_loop().time() - collected_at > COLLECT_EVERY_S:
                    collected_at = asyncio.get_running_loop().time()
                    await tidy(backend)
        except RedisError as error:
            log.warning("the sweep failed: %s", error)
            collected_at = (
                asyncio.get_running_loop().time()
            )  # workers first say what they have stored meanwhile
        except Exception:
            log.exception("the sweep failed")
        await asyncio.sleep(backend.settings.sweep_s)


async def tidy(backend: Backend) -> None:
    """Forgets what is old, then the blobs that nobody needs."""
    if backend.settings.keep_s:
        await forget_old(backend, backend.settings.keep_s)
    await collect(backend)


async def _has_lock(backend: Backend, me: bytes) -> bool:
    """Whether this process sweeps now. Two sweepers at once would do no harm, only work twice."""
    ttl = round(3000 * backend.settings.sweep_s)
    if await backend.redis.set(LOCK, me, nx=True, px=ttl):
        return True
    if await backend.redis.get(LOCK) != me:
        return False
    return bool(await answer(backend.redis.pexpire(LOCK, ttl)))


async def sweep_once(backend: Backend) -> None:
    """One pass over leases and lanes."""
    while swept := await arun(backend.redis, sweep(SWEEP_LIMIT)):
        for job, state in swept:
            log.warning("job %s: its lease is over, now %s", job, state)
    for lane in LANES:
        missing = (await arun(backend.redis, lane_state(lane))).missing_tickets
        if missing:
            await asyncio.to_thread(tickets.push, backend.waker.redis, lane, missing)
