"""Text for terminals: nothing hostile, sizes and times for readers, a curve in one line."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from service.lines import clean as clean
from service.wire import Job

_TELLING = ("publish_as", "expression", "preset", "instrument")
_NAME_SHOWN = 60
BARS = "▁▂▃▄▅▆▇█"


def name_of(job: Job) -> str:
    """What people call a job: its name, its alias, its instrument, or the beginning of what it compiles."""
    spec = {**job["spec"], **(job["spec"].get("contract") or {})}
    told = next((spec[field] for field in _TELLING if spec.get(field)), "")
    return clean(job["name"] or str(told)[:_NAME_SHOWN])


def duration(seconds: float) -> str:
    """``42 s``, ``3:05`` or ``2:03:00``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """Means of at most ``width`` equal pieces of ``values``, as bars between their lowest and highest."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    pieces = min(width, len(finite))
    edges = [round(i * len(finite) / pieces) for i in range(pieces + 1)]
    means = [math.fsum(finite[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, span = min(means), max(means) - min(means)
    top = len(BARS) - 1
    return "".join(BARS[round((mean - low) / span * top) if span else 0] for mean in means)
