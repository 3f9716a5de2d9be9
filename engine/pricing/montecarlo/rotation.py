"""Brownian bridge and principal components: rotations that let the first factors decide most of a path.

Independent normals stay independent under a rotation, so it may be used at any grid; only quasi-random
points, whose first dimensions are the best, gain from it.
"""

from __future__ import annotations

from functools import lru_cache
from math import pi, sin, sqrt

from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.spec import Spec


def rotation_of(spec: Spec) -> list[float]:
    """The matrix that turns factors into the standardised increments of the grid's steps, row by row."""
    assert spec.simulation is not None
    times = grid_of(spec).times
    return _bridge(times) if spec.simulation.bridge == "brownian" else _components(times)


@lru_cache(maxsize=16)
def _bridge(times: tuple[float, ...]) -> list[float]:
    """Factor 0 is the end, the next ones the middles of what lies between known times (Caflisch 1997)."""
    m = len(times)
    clock = (0.0, *times)
    values = [[0.0] * m for _ in range(m + 1)]  # what each factor adds to W at each time
    values[m][0] = sqrt(clock[m])
    gaps, factor = [(0, m)], 1
    while gaps:
        left, right = gaps.pop(0)
        middle = (left + right) // 2
        if middle == left:
            continue
        a, b, c = clock[left], clock[middle], clock[right]
        weight = (b - a) / (c - a)
        row = [(1.0 - weight) * x + weight * y for x, y in zip(values[left], values[right], strict=True)]
        row[factor] = sqrt((b - a) * (c - b) / (c - a))
        values[middle] = row
        factor += 1
        gaps += [(left, middle), (middle, right)]
    return _increments(values, clock)


def _increments(values: list[list[float]], clock: tuple[float, ...]) -> list[float]:
    rows = zip(values, values[1:], clock, clock[1:], strict=False)
    return [(y - x) / sqrt(b - a) for low, high, a, b in rows for x, y in zip(low, high, strict=True)]


@lru_cache(maxsize=16)
def _components(times: tuple[float, ...]) -> list[float]:
    """Principal components of a Brownian motion at equal steps, in closed form: sines of
    (2 i - 1) k π / (2 m + 1). At other grids the rotation is the same, no longer the best one.
    """
    m = len(times)
    scale = 2.0 / sqrt(2.0 * m + 1.0)
    clock = tuple(float(k) for k in range(m + 1))
    values = [[0.0] * m]
    for k in range(1, m + 1):
        row = []
        for i in range(1, m + 1):
            angle = (2.0 * i - 1.0) * pi / (2.0 * m + 1.0)
            row.append(scale * sin(k * angle) / (2.0 * sin(0.5 * angle)))
        values.append(row)
    return _increments(values, clock)
