"""Reading a job's event log from where they lie: the stream, or segment blobs where that was trimmed."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import OrderedDict
from typing import Any

from redis.asyncio import Redis

from service.blobs import BlobDamagedError, BlobMissingError, BlobStore
from service.jobs.events import LoggedEvent, from_entry, from_line, segments_key, stream_key
from service.jobs.records import Segment, key, segments

SEGMENTS_CACHED = 16


class GapError(Exception):
    """Events existed once and can't be read any more; ``before`` are those up to the gap."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.before: list[LoggedEvent] = []


class EventLog:
    """The logs of all jobs."""

    def __init__(self, redis: Redis, blobs: BlobStore) -> None:
        self._redis = redis
        self._blobs = blobs
        self._cache: OrderedDict[str, list[bytes]] = OrderedDict()

    async def read(self, job: str, after: int, limit: int) -> list[LoggedEvent]:
        """At most ``limit`` events from ``after + 1`` on, without a gap; fewer only at the end of the log.

        Raises GapError when one of them was written and is nowhere any more.
        """
        found: list[LoggedEvent] = []
        while len(found) < limit:
            cursor = found[-1].seq if found else after
            events = await self._read_stream(job, cursor, limit - len(found))
            if not events and await self._last_seq(job) > cursor:  # written since, or trimmed
                events = await self._read_stream(job, cursor, limit - len(found))
            elif not events:
                break
            if events and events[0].seq == cursor + 1:
                return found + events
            try:
                found += await self._read_segment(job, cursor, limit - len(found))
            except GapError as gap:
                gap.before = found
                raise
        return found

    async def first_kept(self, job: str) -> int:
        """The first seq of the stream; the one after the last where it is empty."""
        entries: Any = await self._redis.xrange(stream_key(job), count=1)
        return from_entry(*entries[0]).seq if entries else await self._last_seq(job) + 1

    async def _read_stream(self, job: str, after: int, limit: int) -> list[LoggedEvent]:
        entries: Any = await self._redis.xrange(stream_key(job), min=f"{after + 1}-0", count=limit)
        return [from_entry(*entry) for entry in entries]

    async def _last_seq(self, job: str) -> int:
        return int(await self._redis.hget(key("job", job), "seq") or 0)

    async def _read_segment(self, job: str, after: int, limit: int) -> list[LoggedEvent]:
        stored = segments(await self._redis.lrange(segments_key(job), 0, -1))
        place = bisect_left(stored, after + 1, key=lambda segment: segment.last)
        if place == len(stored) or stored[place].first > after + 1:
            raise GapError(f"{job}: event {after + 1} is gone")
        lines = await self._lines(stored[place])
        start = after + 1 - stored[place].first
        return [from_line(line) for line in lines[start : start + limit]]

    async def _lines(self, segment: Segment) -> list[bytes]:
        if segment.blob in self._cache:
            self._cache.move_to_end(segment.blob)
            return self._cache[segment.blob]
        try:
            content = await asyncio.to_thread(self._blobs.get, segment.blob)
        except (BlobMissingError, BlobDamagedError) as error:
            raise GapError(f"the segment of events {segment.first} to {segment.last} is gone") from error
        lines = self._cache[segment.blob] = content.splitlines()
        if len(self._cache) > SEGMENTS_CACHED:
            self._cache.popitem(last=False)
        return lines
