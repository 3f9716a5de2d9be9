"""A job's metric series, gathered from its events, kept up to date, and thinned for a screen."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from service.api.log import EventLog, GapError
from service.jobs.events import LoggedEvent
from service.jobs.records import Json

JOBS_CACHED = 32
PAGE = 5_000


@dataclass
class Series:
    """One metric: steps in rising order, and the value at each; None where it wasn't finite."""

    steps: list[int] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)

    def add(self, step: int, value: float | None) -> None:
        """Adds a point; what is there of this step and later ones is replaced."""
        self.drop_from(step)
        self.steps.append(step)
        self.values.append(value)

    def drop_from(self, step: int) -> None:
        """Drops what a lost attempt left from the step on where the next one begins."""
        if self.steps and step <= self.steps[-1]:
            place = bisect_left(self.steps, step)
            del self.steps[place:], self.values[place:]

    def window(self, from_step: int | None, to_step: int | None) -> Series:
        """The part between two steps, both included."""
        start = 0 if from_step is None else bisect_left(self.steps, from_step)
        stop = len(self.steps) if to_step is None else bisect_right(self.steps, to_step)
        return Series(self.steps[start:stop], self.values[start:stop])

    def thinned(self, points: int) -> Series:
        """About ``points`` points at most: first, last, lowest, highest of equal ranges, and gaps."""
        if len(self.steps) <= points:
            return self
        buckets = max(1, points // 4)
        kept: list[int] = []
        for i in range(buckets):
            start, stop = len(self.steps) * i // buckets, len(self.steps) * (i + 1) // buckets
            kept += sorted(_telling(self.values, start, stop))
        return Series([self.steps[i] for i in kept], [self.values[i] for i in kept])


def _telling(values: Sequence[float | None], start: int, stop: int) -> set[int]:
    """Indices of the points that a drawn line needs of a range; a gap keeps one missing point."""
    finite = [(value, i) for i in range(start, stop) if (value := values[i]) is not None]
    chosen = {start, stop - 1}
    if finite:
        chosen |= {min(finite)[1], max(finite)[1]}
    if len(finite) < stop - start:
        chosen.add(next(i for i in range(start, stop) if values[i] is None))
    return chosen


@dataclass
class _Gathered:
    """What is known of a job's series, up to the event ``seq``."""

    seq: int = 0
    attempt: int = 0
    series: dict[str, Series] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def take(self, event: LoggedEvent) -> None:
        self.seq = event.seq
        if event.type != "metric":
            return
        record = event.to_dict()
        data: Json = record["data"]
        if record["attempt"] != self.attempt and data["steps"]:
            self.attempt = record["attempt"]
            for series in self.series.values():
                series.drop_from(data["steps"][0])
        for name, values in data["values"].items():
            series = self.series.setdefault(name, Series())
            missing = name in data.get("nonfinite", ())
            for step, value in zip(data["steps"], values, strict=False):
                if value is not None or missing:
                    series.add(step, value)


class MetricStore:
    """The series of the jobs that were asked for lately."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._jobs: OrderedDict[str, _Gathered] = OrderedDict()

    async def series(self, job: str) -> dict[str, Series]:
        """All series of a job as of now; events that can't be read any more are left out."""
        gathered = self._jobs.setdefault(job, _Gathered())
        self._jobs.move_to_end(job)
        if len(self._jobs) > JOBS_CACHED:
            self._jobs.popitem(last=False)
        async with gathered.lock:
            while True:
                try:
                    events = await self._log.read(job, gathered.seq, PAGE)
                    is_end = len(events) < PAGE
                except GapError as gap:
                    events, is_end = gap.before, False
                for event in events:
                    gathered.take(event)
                if is_end:
                    break
                if len(events) < PAGE:
                    gathered.seq = await self._log.first_kept(job) - 1
        return gathered.series


def series_view(series: Series) -> dict[str, Any]:
    """A series as the API shows it."""
    return {"steps": series.steps, "values": series.values}
