"""A job's metric series, gathered from its events and thinned for a screen."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from service.jobs.events import LoggedEvent
from service.jobs.records import Json

SPARSE = 200  # points of a series that is shown whole, however few points are asked for


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
        """About ``points`` points: first, last, lowest, highest of equal ranges, and gaps.

        A sparse series, such as one of evaluations, stays whole.
        """
        if len(self.steps) <= max(points, SPARSE):
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


class Metrics:
    """All series of a job."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self._attempt = 0

    def take(self, event: LoggedEvent) -> None:
        """Adds the points of a metric event."""
        if event.type != "metric":
            return
        record = event.to_dict()
        data: Json = record["data"]
        if record["attempt"] != self._attempt and data["steps"]:
            self._attempt = record["attempt"]
            for series in self.series.values():
                series.drop_from(data["steps"][0])
        for name, values in data["values"].items():
            series = self.series.setdefault(name, Series())
            missing = name in data.get("nonfinite", ())
            for step, value in zip(data["steps"], values, strict=False):
                if value is not None or missing:
                    series.add(step, value)


def series_view(series: Series) -> dict[str, Any]:
    """A series as the API shows it."""
    return {"steps": series.steps, "values": series.values}
