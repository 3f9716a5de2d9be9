"""Deletes blobs that nothing refers to, once they are old enough that nobody is about to refer to them."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator

from redis.asyncio import Redis

from service.api.backend import Backend
from service.jobs.records import key

log = logging.getLogger(__name__)

AGE_S = 3600.0
SCAN_COUNT = 500
READINGS = 2  # a reference that moves to another record while they are read is seen the second time
NAME = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
PLACES = (  # keys, their type, how all of their values are read
    (key("job", "*"), "HASH", ("HVALS",)),
    (key("job", "*"), "LIST", ("LRANGE", 0, -1)),
    (key("model", "*"), "STRING", ("GET",)),
    (key("file", "*"), "STRING", ("GET",)),
)


async def collect(backend: Backend, age_s: float = AGE_S) -> int:
    """Deletes every blob older than ``age_s`` whose name stands in no record; returns how many."""
    before = time.time() - age_s
    old = await asyncio.to_thread(lambda: set(backend.blobs.older_than(before)))
    if not old:
        return 0
    for _ in range(READINGS):
        async for value in _values(backend.redis):
            old.difference_update(name.decode() for name in NAME.findall(value))
    deleted = 0
    for name in old:
        deleted += await asyncio.to_thread(backend.blobs.delete, name, before)
    if deleted:
        log.info("%d blobs that nothing refers to were deleted", deleted)
    return deleted


async def _values(redis: Redis) -> AsyncGenerator[bytes]:
    """Everything in the store that may name a blob: records, manifests, segments."""
    for pattern, kind, command in PLACES:
        cursor = 0
        while True:
            cursor, names = await redis.scan(cursor, match=pattern, count=SCAN_COUNT, _type=kind)
            async with redis.pipeline(transaction=False) as pipe:
                for name in names:
                    pipe.execute_command(command[0], name, *command[1:])
                for reply in await pipe.execute():
                    for value in reply if isinstance(reply, list) else [reply or b""]:
                        yield value
            if cursor == 0:
                break
