"""Forgets jobs that ended long ago. What a live job may still go on from is never among them."""

from __future__ import annotations

import logging

from redis.asyncio import Redis

from service.api.backend import Backend, answer
from service.jobs.calls import arun, remove
from service.jobs.records import STATES, TERMINAL, key, text
from service.specs import KINDS

log = logging.getLogger(__name__)

PAGE = 200
LONGEST_CHAIN = 100  # of retries of retries
LIVE = tuple(state for state in STATES if state not in TERMINAL)


async def forget_old(backend: Backend, keep_s: float) -> int:
    """Removes every listed job that ended more than ``keep_s`` ago; returns how many. Blobs go later."""
    seconds, _ = await answer(backend.redis.time())
    before = (seconds - keep_s) * 1000
    needed = await _needed(backend.redis)
    removed = 0
    for kind in KINDS:
        for state in sorted(TERMINAL):
            for job in await _ended_before(backend.redis, key("jobs", "*", kind, state), before):
                if job not in needed:
                    changed = await arun(backend.redis, remove(job))
                    removed += changed is not None and changed.done
    if removed:
        log.info("%d jobs that ended long ago were removed", removed)
    return removed


async def _ended_before(redis: Redis, index: str, before: float) -> list[str]:
    """The ids of an index whose jobs ended before a time (ms)."""
    found: list[str] = []
    start = "-"
    while ids := await answer(redis.zrange(index, start, "+", bylex=True, offset=0, num=PAGE)):
        names = [text(name) for name in ids]
        async with redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hget(key("job", name), "ended_at")
            ends = await pipe.execute()
        found += [name for name, end in zip(names, ends, strict=True) if end and float(end) < before]
        start = f"({names[-1]}"
    return found


async def _needed(redis: Redis) -> set[str]:
    """The jobs whose checkpoints a live one may start from: what it retries, and what that retries."""
    needed: set[str] = set()
    for kind in KINDS:
        for state in LIVE:
            for name in await answer(redis.zrange(key("jobs", "*", kind, state), 0, -1)):
                older = await answer(redis.hget(key("job", text(name)), "retry_of"))
                for _ in range(LONGEST_CHAIN):
                    if not older or text(older) in needed:
                        break
                    needed.add(text(older))
                    older = await answer(redis.hget(key("job", text(older)), "retry_of"))
    return needed
