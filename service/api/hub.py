"""One reader a process follows the streams of all jobs that somebody watches; all viewers share its bytes.

A viewer first catches up from the log, then takes what the reader hands out. Sequence numbers tell it what it
has; whatever is missing between its cursor and the next batch, because it was slow or late, it reads from the
log. So each event reaches it exactly once, and a slow viewer costs nobody anything.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from service.api.ending import end
from service.api.log import EventLog, GapError
from service.jobs.events import LoggedEvent, from_entry, stream_key
from service.jobs.records import TERMINAL, key, text

log = logging.getLogger(__name__)

PING_S = 15.0
BLOCK_MS = 2000
READ_COUNT = 1000
CATCH_UP_PAGE = 1000
BUFFER_LIMIT = 2**20  # bytes that wait for a slow viewer before it has to read the log itself
PACE_S = 2e-4  # pause of the reader a viewer, so that many viewers get few large batches
LONGEST_PACE_S = 0.2
RECONNECT_S = 0.2


@dataclass(frozen=True)
class Batch:
    """Events of one job without a gap between them, and their frames, encoded once for all viewers."""

    job: str
    events: Sequence[LoggedEvent]
    frames: bytes

    @cached_property
    def named_frames(self) -> bytes:
        """The frames for a stream of several jobs."""
        return b"".join(event.named_sse(self.job) for event in self.events)

    @property
    def first(self) -> int:
        return self.events[0].seq

    @property
    def last(self) -> int:
        return self.events[-1].seq

    def after(self, cursor: int) -> Batch:
        """The part that a viewer with this cursor lacks."""
        if self.first > cursor:
            return self
        return batch(self.job, [event for event in self.events if event.seq > cursor])

    @property
    def final_state(self) -> str | None:
        """The terminal state that the last event reports, if it does."""
        if self.events[-1].type != "state":
            return None
        state: str = json.loads(self.events[-1].line)["data"]["state"]
        return state if state in TERMINAL else None


@dataclass(frozen=True)
class Ping:
    """Nothing happened for a while."""


@dataclass(frozen=True)
class Reset:
    """The cursor is of another history; what follows comes after ``last_seq``."""

    last_seq: int


@dataclass(frozen=True)
class End:
    """The job has ended and every event was handed out."""

    state: str
    last_seq: int


Step = Batch | Ping | Reset | End
PING = Ping()


def batch(job: str, events: Sequence[LoggedEvent]) -> Batch:
    """A batch of at least one event."""
    return Batch(job, events, b"".join(event.sse for event in events))


@dataclass
class _Topic:
    """A watched job: the last seq the reader has handed out, and who watches."""

    seq: int
    viewers: set[Viewer] = field(default_factory=set)


class Viewer:
    """One watcher of one job. Iterate ``steps``; use as an asynchronous context manager."""

    def __init__(self, hub: Hub, job: str, after: int) -> None:
        self._hub = hub
        self.job = job
        self.cursor = after
        self._buffer: deque[Batch | Ping] = deque()
        self._buffered = 0
        self._news = asyncio.Event()
        self._state: str | None = None
        self._is_stale = False  # the cursor is of a history that is not the store's
        self.quiet_since = 0.0

    async def __aenter__(self) -> Viewer:
        seq, self._state = await self._hub.join(self)
        self._is_stale = self._is_stale or self.cursor > seq
        return self

    async def __aexit__(self, *_: object) -> None:
        self._hub.drop(self)

    def push(self, item: Batch | Ping) -> None:
        """Called by the hub: never blocks, forgets the backlog of a viewer that is too slow."""
        if isinstance(item, Batch):
            self._buffered += len(item.frames)
            if self._buffered > BUFFER_LIMIT:
                self._buffer.clear()
                self._buffered = len(item.frames)
        self._buffer.append(item)
        self._news.set()

    def push_reset(self) -> None:
        """Called by the hub when the history it handed out is not the store's any more."""
        self._buffer.clear()
        self._buffered = 0
        self._is_stale = True
        self._news.set()

    def wake(self) -> None:
        """Called by the hub when it closes."""
        self._news.set()

    async def steps(self) -> AsyncGenerator[Step]:
        """What happens, until the job has ended or the hub closes."""
        while not self._hub.closed:
            async for step in self._catch_up():
                yield step
                if isinstance(step, End):
                    return
            async for step in self._live():
                yield step
                if isinstance(step, End):
                    return

    async def _catch_up(self) -> AsyncGenerator[Step]:
        while not self._hub.closed:
            try:
                events = await self._hub.log.read(self.job, self.cursor, CATCH_UP_PAGE)
                if self._is_stale:
                    raise GapError("the history was lost")
            except GapError as gap:
                if gap.before:
                    yield batch(self.job, gap.before)
                self._is_stale = False
                self.cursor, self._state = await self._hub.snapshot(self.job)
                yield Reset(self.cursor)
                continue
            if events:
                for step in self._advance(batch(self.job, events)):
                    yield step
            elif self._state in TERMINAL:
                yield End(self._state or "", self.cursor)
            if len(events) < CATCH_UP_PAGE:  # what came since this read began is in the buffer
                return

    async def _live(self) -> AsyncGenerator[Step]:
        while self._may_go_on():
            while self._buffer and self._may_go_on():
                item = self._buffer.popleft()
                self.quiet_since = self._hub.now()
                if isinstance(item, Ping):
                    yield item
                    continue
                self._buffered -= len(item.frames)
                if item.first > self.cursor + 1:
                    return
                if item.last > self.cursor:
                    for step in self._advance(item.after(self.cursor)):
                        yield step
            self._news.clear()
            if not self._buffer and self._may_go_on():
                await self._news.wait()

    def _may_go_on(self) -> bool:
        return not self._hub.closed and not self._is_stale

    def _advance(self, item: Batch) -> list[Step]:
        self.cursor = item.last
        state = item.final_state
        self._state = state or self._state
        return [item, End(state, self.cursor)] if state else [item]


class Hub:
    """The reader and the viewers of one process."""

    def __init__(self, redis: Redis, reader: Redis, log_: EventLog) -> None:
        self._redis = redis
        self._reader = reader
        self.log = log_
        self.closed = False
        self._topics: dict[str, _Topic] = {}
        self._bell = key("hub", secrets.token_hex(8))  # an entry here ends the reader's blocking read
        self._tasks: list[asyncio.Task[None]] = []

    def now(self) -> float:
        """The loop's clock."""
        return asyncio.get_running_loop().time()

    def start(self) -> None:
        """Starts the reader."""
        self._tasks = [asyncio.create_task(self._read_forever()), asyncio.create_task(self._ping_forever())]

    def close(self) -> None:
        """Ends every stream. From the loop's thread only."""
        self.closed = True
        for topic in self._topics.values():
            for viewer in topic.viewers:
                viewer.wake()

    async def stop(self) -> None:
        """Ends every stream and the reader."""
        self.close()
        await end(self._tasks)
        await self._reader.aclose()

    def view(self, job: str, after: int) -> Viewer:
        """A watcher of a job that has seen the events up to ``after``."""
        return Viewer(self, job, after)

    async def snapshot(self, job: str) -> tuple[int, str | None]:
        """A job's last seq and state."""
        seq, state = await self._redis.hmget(key("job", job), ["seq", "state"])
        return int(seq or 0), text(state) if state else None

    async def join(self, viewer: Viewer) -> tuple[int, str | None]:
        """Adds a viewer; returns the job's last seq and state from just before or just after."""
        viewer.quiet_since = self.now()
        seq, state = await self.snapshot(viewer.job)
        topic = self._topics.get(viewer.job)
        if topic is None:
            topic = self._topics[viewer.job] = _Topic(seq)
            topic.viewers.add(viewer)
            try:
                await self._ring()
            except BaseException:
                self.drop(viewer)
                raise
        topic.viewers.add(viewer)
        return seq, state

    def drop(self, viewer: Viewer) -> None:
        """Removes a viewer."""
        topic = self._topics.get(viewer.job)
        if topic is not None:
            topic.viewers.discard(viewer)
            if not topic.viewers:
                del self._topics[viewer.job]

    async def _ring(self) -> None:
        await self._redis.xadd(self._bell, {"ring": 1}, maxlen=1, approximate=False)
        await self._redis.expire(self._bell, 86_400)

    async def _read_forever(self) -> None:
        heard = "$"
        while not self.closed:
            try:
                streams: dict[Any, Any] = {
                    stream_key(job): f"{topic.seq}-0" for job, topic in self._topics.items()
                }
                reply: Any = await self._reader.xread(
                    {self._bell: heard, **streams}, block=BLOCK_MS, count=READ_COUNT
                )
                for name, entries in pairs(reply):
                    if text(name) == self._bell:
                        heard = text(entries[-1][0])
                    else:
                        self._hand_out(text(name).split(":")[2], entries)
                await asyncio.sleep(min(LONGEST_PACE_S, PACE_S * self._viewers()))
            except RedisError as error:
                log.warning("the event reader lost Redis: %s", error)
                await asyncio.sleep(RECONNECT_S)
                await self._compare_histories()
            except Exception:
                log.exception(
                    "the event reader stumbled"
                )  # viewers still have the log; the next read may work
                await asyncio.sleep(RECONNECT_S)

    def _hand_out(self, job: str, entries: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> None:
        topic = self._topics.get(job)
        if topic is None:
            return
        events = [from_entry(*entry) for entry in entries]
        topic.seq = events[-1].seq
        item = batch(job, events)
        for viewer in topic.viewers:
            viewer.push(item)

    async def _compare_histories(self) -> None:
        """After an outage: a server that lost its last second counts from an older seq."""
        try:
            for job, topic in list(self._topics.items()):
                seq, _ = await self.snapshot(job)
                if seq < topic.seq:
                    topic.seq = seq
                    for viewer in topic.viewers:
                        viewer.push_reset()
        except RedisError:
            log.debug("Redis is still away")

    async def _ping_forever(self) -> None:
        while not self.closed:
            await asyncio.sleep(PING_S / 3)
            for topic in self._topics.values():
                for viewer in topic.viewers:
                    if self.now() - viewer.quiet_since > PING_S * 2 / 3:
                        viewer.push(PING)

    def _viewers(self) -> int:
        return sum(len(topic.viewers) for topic in self._topics.values())


def pairs(reply: Any) -> list[tuple[bytes, Any]]:
    """The streams of an XREAD reply; RESP3 gives a mapping, RESP2 a list."""
    if not reply:
        return []
    if isinstance(reply, dict):
        return [(name, parts[0] if len(parts) == 1 else parts) for name, parts in reply.items()]
    return [(name, entries) for name, entries in reply]
