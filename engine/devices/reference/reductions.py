"""Reductions, scans and products along one axis, in the order that defines their bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from math import inf, isnan
from operator import add
from typing import Any, TypeAlias

from engine.core.dtype import DType, float64
from engine.devices.reference.rounding import fma_f32, fma_f64, fma_int, rounder
from engine.devices.reference.scalar import Function, combine

TREE_BLOCK = 4096
LANES = 64
SCAN_BLOCK = 1024
PANEL = 384

Round: TypeAlias = Callable[[Iterable[float]], list[float]]


def reduce_row(kind: str, dtype: DType) -> Callable[[list[Any]], Any]:
    """The reduction of a row of ``dtype`` elements to one number, not yet rounded to bfloat16."""
    if kind in ("any", "all"):
        return any if kind == "any" else all
    function, round_ = combine(kind, dtype), rounder(dtype)
    empty = {"sum": 0, "prod": 1, "max": -inf, "min": inf}[kind]
    return lambda row: _tree(row, function, round_) if row else empty


def _tree(row: list[Any], function: Function, round_: Round) -> Any:
    """Blocks are combined as a binary counter counts; what is left at the end, from the last to the first."""
    counter: list[tuple[int, Any]] = []  # (blocks, their total), sizes falling
    for start in range(0, len(row), TREE_BLOCK):
        blocks, total = 1, _block(row[start : start + TREE_BLOCK], function, round_)
        while counter and counter[-1][0] == blocks:
            total = round_([function(counter.pop()[1], total)])[0]
            blocks *= 2
        counter.append((blocks, total))
    total = counter.pop()[1]
    while counter:
        total = round_([function(counter.pop()[1], total)])[0]
    return total


def _block(row: list[Any], function: Function, round_: Round) -> Any:
    """Element k goes to lane k mod 64; then lane l takes in lane l + h for h = 32, 16 … 1, where both
    exist.
    """
    lanes = row[:LANES]
    for start in range(LANES, len(row), LANES):
        chunk = row[start : start + LANES]
        lanes[: len(chunk)] = round_(map(function, lanes, chunk))
    half = LANES // 2
    while half:
        upper = lanes[half : 2 * half]
        lanes = [*round_(map(function, lanes, upper)), *lanes[len(upper) : half]]
        half //= 2
    return lanes[0]


def argreduce_row(kind: str) -> Callable[[list[Any]], int]:
    """The first position of the extreme of a row; of a NaN where there is one."""
    extreme: Callable[[list[Any]], Any] = max if kind == "max" else min

    def position(row: list[Any]) -> int:
        for i, value in enumerate(row):
            if isnan(value):
                return i
        return row.index(extreme(row))

    return position


def scan_row(kind: str, dtype: DType) -> Callable[[list[Any]], list[Any]]:
    """A chain inside blocks of 1024; each later block then takes in the last result of the block before
    it.
    """
    function, round_ = combine(kind, dtype), rounder(dtype)

    def step(total: Any, value: Any) -> Any:
        return round_([function(total, value)])[0]

    def scan(row: list[Any]) -> list[Any]:
        result: list[Any] = []
        for start in range(0, len(row), SCAN_BLOCK):
            local = accumulate(row[start : start + SCAN_BLOCK], step)
            result.extend([step(result[start - 1], value) for value in local] if start else local)
        return result

    return scan


def row_times_matrix(dtype: DType) -> Callable[[list[Any], list[list[Any]]], list[Any]]:
    """(K) by K rows of (N): for each result a chain in each panel of 384, panels added in order to +0."""
    step: Callable[[Any, list[Any], list[Any]], list[Any]]
    step = fma_int if dtype.is_int else fma_f64 if dtype is float64 else fma_f32
    round_ = rounder(dtype)
    zero: Any = 0 if dtype.is_int else 0.0

    def times(row: list[Any], matrix: list[list[Any]]) -> list[Any]:
        totals = [zero] * len(matrix[0])
        for start in range(0, len(row), PANEL):
            chains = [zero] * len(totals)
            for x, ys in zip(row[start : start + PANEL], matrix[start : start + PANEL], strict=True):
                chains = step(x, ys, chains)
            totals = round_(map(add, totals, chains))
        return totals

    return times
