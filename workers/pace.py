"""How fast an attempt goes: the time left, and whether it still moves at all."""

from __future__ import annotations

import statistics
import time
from collections import deque
from typing import Any

WINDOW_S = 60.0
INTERVALS_KEPT = 101
STALL_FACTOR = 10.0


class Pace:
    """Told of each check (``tick``) and of each step reached; asked from another thread.

    All times are seconds of the monotonic clock.
    """

    def __init__(self) -> None:
        self.step = -1
        self.steps = 0
        self._reached: deque[tuple[float, int]] = deque()
        self._last_check = self._last_sign = time.monotonic()
        self._intervals: deque[float] = deque(maxlen=INTERVALS_KEPT)

    def tick(self) -> None:
        """A check: the usual interval between two is learnt."""
        now = time.monotonic()
        self._intervals.append(now - self._last_check)
        self._last_check = self._last_sign = now

    def alive(self) -> None:
        """A sign of life between two checks."""
        self._last_sign = time.monotonic()

    def silent_for(self) -> float:
        """Seconds since the last sign of life."""
        return time.monotonic() - self._last_sign

    def allowed(self, at_least_s: float) -> float:
        """How long a silence is still normal: ten times the usual one, and at least ``at_least_s``."""
        intervals = tuple(self._intervals)
        return max(at_least_s, STALL_FACTOR * statistics.median(intervals)) if intervals else at_least_s

    def reached(self, step: int, steps: int) -> None:
        now = time.monotonic()
        self.step, self.steps = step, steps
        self._reached.append((now, step))
        while now - self._reached[0][0] > WINDOW_S and len(self._reached) > 2:
            self._reached.popleft()

    def report(self) -> dict[str, Any]:
        """``{"step", "steps", "eta_s"}``; eta_s is null until two steps were seen."""
        (since, first), (until, last) = self._reached[0], self._reached[-1]
        eta = (self.steps - last) * (until - since) / (last - first) if last > first else None
        return {"step": self.step, "steps": self.steps, "eta_s": None if eta is None else round(eta, 1)}
