"""State changes of all listed jobs, for pages that show the list: one reader a process, many watchers.

The changes stand in a capped stream. Whoever begins, or comes back with a cursor that the stream no longer
holds, gets ``event: reset`` with a cursor: the list read now and the changes after it are the whole.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from service.api.ending import end
from service.api.hub import BLOCK_MS, LONGEST_PACE_S, PACE_S, PING_S, READ_COUNT, RECONNECT_S, pairs
from service.api.keys import EVERYONE
from service.api.stream import PING, RETRY, frame
from service.jobs.events import rfc3339
from service.jobs.records import key, text

log = logging.getLogger(__name__)

STREAM = key("changes")
WAITING_LIMIT = 10_000  # changes that wait for a slow watcher before it has to read the list again
Place = tuple[int, int]  # of an entry in the stream: its time (ms) and its number in that millisecond
START: Place = (0, 0)


@dataclass(frozen=True)
class Change:
    """One change: its place, whose job it is, and its frame."""

    place: Place
    owner: str
    frame: bytes


def read_place(cursor: str) -> Place | None:
    """The place that a cursor names; None for what is no cursor."""
    first, dash, second = cursor.partition("-")
    if not (dash and first.isdecimal() and second.isdecimal() and len(cursor) <= 40):
        return None
    return int(first), int(second)


def write_place(place: Place) -> str:
    """The cursor of a place."""
    return f"{place[0]}-{place[1]}"


def _change(entry_id: bytes, fields: Mapping[bytes, bytes]) -> Change:
    cursor = text(entry_id)
    shown = {name: text(fields[name.encode()]) for name in ("job", "kind", "state")}
    data = {**shown, "seq": int(fields[b"seq"]), "time": rfc3339(int(fields[b"time"]))}
    body = json.dumps(data, separators=(",", ":"))
    line = f"id: {cursor}\nevent: state\ndata: {body}\n\n".encode()
    return Change(read_place(cursor) or START, text(fields[b"owner"]), line)


class _Watcher:
    """The changes that wait for one stream."""

    def __init__(self) -> None:
        self.waiting: deque[Change] = deque()
        self.is_stale = False
        self.news = asyncio.Event()

    def push(self, changes: Sequence[Change]) -> None:
        self.waiting.extend(changes)
        if len(self.waiting) > WAITING_LIMIT:
            self.mark_stale()
        self.news.set()

    def mark_stale(self) -> None:
        """What it was told no longer is all that happened."""
        self.waiting.clear()
        self.is_stale = True
        self.news.set()


class ChangeFeed:
    """The reader and the watchers of one process. It reads only while somebody watches."""

    def __init__(self, redis: Redis, reader: Redis) -> None:
        self._redis = redis
        self._reader = reader
        self._watchers: set[_Watcher] = set()
        self._cursor = START
        self._joining = asyncio.Lock()
        self._watched = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.closed = False

    def start(self) -> None:
        """Starts the reader."""
        self._tasks = [asyncio.create_task(self._read_forever())]

    def close(self) -> None:
        """Ends every stream. From the loop's thread only."""
        self.closed = True
        for watcher in self._watchers:
            watcher.news.set()

    async def stop(self) -> None:
        """Ends every stream and the reader."""
        self.close()
        await end(self._tasks)

    async def frames(self, sees: str, after: Place | None) -> AsyncGenerator[bytes]:
        """The stream of one watcher, who sees the jobs of one owner or all; ``after`` is its cursor."""
        yield RETRY
        watcher = _Watcher()
        try:
            await self._join(watcher)
            cursor = after
            while not self.closed:
                if cursor is None or watcher.is_stale or not await self._is_there(cursor):
                    watcher.is_stale = False
                    cursor = await self._last()
                    yield frame("reset", {"after": write_place(cursor)})
                async for change in self._follow(watcher, cursor):
                    if change is None:
                        yield PING
                        continue
                    cursor = change.place
                    if sees in (EVERYONE, change.owner):
                        yield change.frame
        except RedisError as error:
            log.warning("a stream of changes ends early, its watcher will come back: %s", error)
        finally:
            self._leave(watcher)

    async def _follow(self, watcher: _Watcher, cursor: Place) -> AsyncGenerator[Change | None]:
        """The changes after a cursor, each once; None where nothing came for a while."""
        while page := await self._page(cursor):
            for change in page:
                yield change
            cursor = page[-1].place
        while not self.closed and not watcher.is_stale:
            while watcher.waiting:
                change = watcher.waiting.popleft()
                if change.place > cursor:
                    cursor = change.place
                    yield change
            watcher.news.clear()
            if not watcher.waiting and not watcher.is_stale:
                try:
                    async with asyncio.timeout(PING_S):
                        await watcher.news.wait()
                except TimeoutError:
                    yield None

    async def _join(self, watcher: _Watcher) -> None:
        """Adds a watcher; the reader goes on from a place no later than what the watcher reads by itself."""
        async with self._joining:
            if not self._watchers:
                self._cursor = await self._last()
            self._watchers.add(watcher)
            self._watched.set()

    def _leave(self, watcher: _Watcher) -> None:
        self._watchers.discard(watcher)
        if not self._watchers:
            self._watched.clear()

    async def _page(self, after: Place) -> list[Change]:
        entries: Any = await self._redis.xrange(STREAM, min=f"({write_place(after)}", count=READ_COUNT)
        return [_change(*entry) for entry in entries]

    async def _last(self) -> Place:
        entries: Any = await self._redis.xrevrange(STREAM, count=1)
        return read_place(text(entries[0][0])) or START if entries else START

    async def _is_there(self, cursor: Place) -> bool:
        place = write_place(cursor)
        return bool(await self._redis.xrange(STREAM, min=place, max=place))

    async def _read_forever(self) -> None:
        while not self.closed:
            await self._watched.wait()
            try:
                reply: Any = await self._reader.xread(
                    {STREAM: write_place(self._cursor)}, block=BLOCK_MS, count=READ_COUNT
                )
                for _, entries in pairs(reply):
                    changes = [_change(*entry) for entry in entries]
                    self._cursor = changes[-1].place
                    for watcher in self._watchers:
                        watcher.push(changes)
                await asyncio.sleep(min(LONGEST_PACE_S, PACE_S * len(self._watchers)))
            except RedisError as error:
                log.warning("the reader of changes lost Redis: %s", error)
                await asyncio.sleep(RECONNECT_S)
                await self._compare_histories()

    async def _compare_histories(self) -> None:
        """After an outage: a server that lost its last second counts from an older place."""
        try:
            last = await self._last()
        except RedisError:
            return
        if last < self._cursor:
            self._cursor = last
            for watcher in self._watchers:
                watcher.mark_stale()
