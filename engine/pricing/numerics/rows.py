"""Rows of a banded matrix as they are applied to a run of values."""

from __future__ import annotations

from operator import mul

Row = tuple[int, list[float]]
"""The column at which a row begins, and its weights from there on."""


def dot(row: Row, start: int, values: list[float]) -> float:
    """The row's weights times the values that lie under them; ``values[0]`` lies at column ``start``."""
    first, weights = row
    skip = start - first
    pairs = map(mul, weights[skip:], values) if skip > 0 else map(mul, weights, values[-skip:])
    return float(sum(pairs))
