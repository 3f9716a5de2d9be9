"""Timing: the quickest and the median of several runs, within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

BUDGET_S = 2.0


@dataclass(frozen=True)
class Measured:
    """Seconds of one run: the least and the median of ``runs``."""

    seconds: float
    median: float
    runs: int


def measure(run: Callable[[], Any], repeats: int, check: Callable[[], None]) -> Measured:
    """Times ``run`` after one run that isn't counted. ``check`` is called between runs, and may raise.

    At most ``repeats`` runs, and no more once two seconds have gone into them; at least one.
    """
    check()
    run()
    times: list[float] = []
    while not times or (len(times) < repeats and sum(times) < BUDGET_S):
        check()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return Measured(min(times), median(times), len(times))
