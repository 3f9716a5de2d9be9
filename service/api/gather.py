"""What adds up from a job's events, kept up to date: asked again, only the events since then are read."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from service.api.log import EventLog, GapError
from service.jobs.events import LoggedEvent
from service.jobs.records import JobRecord

JOBS_CACHED = 32
PAGE = 5_000


class Gathered(Protocol):
    """Something that events add to, one after the other."""

    def take(self, event: LoggedEvent) -> None:
        """Adds the next event; its ``seq`` jumps where events can't be read any more."""


T = TypeVar("T", bound=Gathered)


@dataclass
class _Kept(Generic[T]):
    """What was gathered of a job, up to the event ``seq``."""

    value: T
    seq: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Gatherer(Generic[T]):
    """What was gathered of the jobs that were asked for lately."""

    def __init__(self, log: EventLog, new: Callable[[], T]) -> None:
        self._log = log
        self._new = new
        self._jobs: OrderedDict[str, _Kept[T]] = OrderedDict()

    async def of(self, job: JobRecord) -> T:
        """What the job's events add up to as of now."""
        kept = self._jobs.get(job.id)
        if kept is None or kept.seq > job.seq:  # a server that lost its last second counts from an older seq
            kept = self._jobs[job.id] = _Kept(self._new())
        self._jobs.move_to_end(job.id)
        if len(self._jobs) > JOBS_CACHED:
            self._jobs.popitem(last=False)
        async with kept.lock:
            while await self._take_page(job.id, kept):
                pass
        return kept.value

    async def _take_page(self, job: str, kept: _Kept[T]) -> bool:
        """Takes the next events; whether there may be more."""
        try:
            events, gap = await self._log.read(job, kept.seq, PAGE), False
        except GapError as error:
            events, gap = error.before, True
        for event in events:
            kept.value.take(event)
            kept.seq = event.seq
        if gap:
            kept.seq = await self._log.first_kept(job) - 1
        return gap or len(events) == PAGE
