"""Fixed points of maps of a few variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_LONGEST = 0.3


def fixed_point(
    f: Callable[[Sequence[float]], list[float]], start: list[float], rounds: int, close: float
) -> list[float]:
    """An x with f(x) = x up to ``close``, or the nearest found in ``rounds`` evaluations.

    Broyden's method (Mathematics of Computation 19, 1965), which begins as plain iteration x <- f(x) and
    learns from each step; it also finds fixed points that repel. No step moves a variable by more than 0.3.
    """
    n = len(start)
    x = start
    gap = [b - a for a, b in zip(x, f(x), strict=True)]
    best, best_size = x, max(map(abs, gap))
    inverse = [[float(i == j) for j in range(n)] for i in range(n)]
    for _ in range(rounds):
        if best_size <= close:
            break
        step = [sum(h * g for h, g in zip(row, gap, strict=True)) for row in inverse]
        longest = max(map(abs, step))
        if longest > _LONGEST:
            step = [s * _LONGEST / longest for s in step]
        moved = [a + s for a, s in zip(x, step, strict=True)]
        new_gap = [b - a for a, b in zip(moved, f(moved), strict=True)]
        change = [b - a for a, b in zip(gap, new_gap, strict=True)]
        x, gap = moved, new_gap
        size = max(map(abs, gap))
        if size < best_size:
            best, best_size = x, size
        _update(inverse, step, change)
    return best


def _update(inverse: list[list[float]], step: list[float], change: list[float]) -> None:
    """Makes the matrix send ``change`` to -``step``, altering it as little as possible."""
    n = len(step)
    image = [sum(h * c for h, c in zip(row, change, strict=True)) for row in inverse]
    size = sum(s * i for s, i in zip(step, image, strict=True))
    if abs(size) < 1e-300:
        return
    row = [sum(step[i] * inverse[i][j] for i in range(n)) / size for j in range(n)]
    for i in range(n):
        error = -step[i] - image[i]
        for j in range(n):
            inverse[i][j] += error * row[j]
