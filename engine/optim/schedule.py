"""Learning rates as functions of the step, computed in float64."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi

Schedule = Callable[[int], float]
"""Maps a step, counted from 0, to the factor that the base learning rate is multiplied by."""


def constant() -> Schedule:
    return lambda step: 1.0


def cosine(steps: int, end: float = 0.1) -> Schedule:
    """Half a cosine from 1 at step 0 to ``end`` at ``steps``, and ``end`` from there on."""
    _require_steps(steps)
    return lambda step: end + (1.0 - end) * 0.5 * (1.0 + cos(pi * min(step / steps, 1.0)))


def linear(steps: int, end: float = 0.0) -> Schedule:
    """A straight line from 1 at step 0 to ``end`` at ``steps``, and ``end`` from there on."""
    _require_steps(steps)
    return lambda step: 1.0 + (end - 1.0) * min(step / steps, 1.0)


def step_decay(every: int, factor: float = 0.1) -> Schedule:
    """Multiplied by ``factor`` after each ``every`` steps."""
    _require_steps(every)
    return lambda step: factor ** (step // every)


def warm_up(steps: int, after: Schedule) -> Schedule:
    """A rise from 1/steps at step 0 to 1 at ``steps``, then ``after``, whose steps count from there."""
    if steps == 0:
        return after
    _require_steps(steps)
    return lambda step: (step + 1) / steps if step < steps else after(step - steps)


def _require_steps(steps: int) -> None:
    if steps < 1:
        raise ValueError(f"a schedule over {steps} steps does not exist; give at least 1")
