"""Quadrature: Gauss-Legendre in panels, Gauss-Hermite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import cos, pi, sqrt

Rule = Sequence[tuple[float, float]]


@cache
def legendre(n: int) -> Rule:
    """Nodes and weights of the ``n``-point Gauss-Legendre rule on [-1, 1], by Newton's method."""
    pairs = []
    for i in range((n + 1) // 2):
        x = cos(pi * (i + 0.75) / (n + 0.5))
        for _ in range(100):
            value, slope = _legendre(n, x)
            step = value / slope
            x -= step
            if abs(step) < 1e-16:
                break
        value, slope = _legendre(n, x)
        pairs.append((x, 2.0 / ((1.0 - x * x) * slope * slope)))
    left = [(-x, w) for x, w in pairs]
    return tuple(left + [pair for pair in reversed(pairs) if pair[0] > 1e-15])


@cache
def hermite(n: int) -> Rule:
    """Nodes and weights of the ``n``-point rule for the mean over a standard normal, nodes rising.

    Orthonormal recurrence and Newton's method with deflation of the roots found.
    """
    roots: list[float] = []
    for i in range(n // 2):
        x = sqrt(4.0 * n + 2.0) * cos(pi * (4.0 * i + 3.0) / (8.0 * n + 4.0)) if i == 0 else roots[-1] * 0.95
        for _ in range(200):
            value, slope = _hermite(n, x)
            pull = sum(1.0 / (x - root) for root in roots)
            step = value / (slope - value * pull)
            x -= step
            if abs(step) < 1e-15 * (1.0 + abs(x)):
                break
        roots.append(x)
    middle = [0.0] if n % 2 else []
    nodes = [-x for x in roots] + middle + roots[::-1]
    return tuple((x, 1.0 / (n * _hermite(n - 1, x)[0] ** 2)) for x in nodes)


def integrate(f: Callable[[float], float], cuts: Sequence[float], n: int = 16) -> float:
    """The integral of ``f`` from the first cut to the last, ``n`` Gauss-Legendre nodes between two cuts."""
    total = 0.0
    for i in range(len(cuts) - 1):
        half, middle = 0.5 * (cuts[i + 1] - cuts[i]), 0.5 * (cuts[i + 1] + cuts[i])
        total += half * sum(weight * f(middle + half * node) for node, weight in legendre(n))
    return total


def panels(start: float, end: float, longest: float) -> list[float]:
    """Cuts of [start, end] into equal panels no longer than ``longest``."""
    count = max(1, -int(-(end - start) // longest))
    return [start + (end - start) * i / count for i in range(count + 1)]


def _legendre(n: int, x: float) -> tuple[float, float]:
    before, value = 1.0, x
    for k in range(2, n + 1):
        before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
    return value, n * (x * value - before) / (x * x - 1.0)


def _hermite(n: int, x: float) -> tuple[float, float]:
    """The orthonormal Hermite polynomial of a standard normal and its derivative."""
    before, value = 0.0, 1.0
    for k in range(1, n + 1):
        before, value = value, (x * value - sqrt(k - 1.0) * before) / sqrt(k)
    return value, sqrt(n) * before
