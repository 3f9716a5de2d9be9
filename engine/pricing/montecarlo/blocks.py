"""Sums of samples in the engine's fixed tree: blocks of 4,096 paths, combined as a binary counter counts."""

from __future__ import annotations

from collections.abc import Sequence

BLOCK = 4096

Row = tuple[float, ...]
"""The sums of one block."""


def total(rows: Sequence[Row]) -> Row:
    """The sum of at least one block, in the order of ``reduce``: equal neighbours become one at once."""
    return tuple([_counted_up(column) for column in zip(*rows, strict=True)])


def _counted_up(leaves: Sequence[float]) -> float:
    """Of whole powers of two from the left, the largest first; what is left is added from the right."""
    heaps = []
    while leaves:
        heap = leaves[: 1 << (len(leaves).bit_length() - 1)]
        leaves = leaves[len(heap) :]
        while len(heap) > 1:
            heap = [a + b for a, b in zip(heap[::2], heap[1::2], strict=True)]
        heaps.append(heap[0])
    sum_ = heaps.pop()
    while heaps:
        sum_ = heaps.pop() + sum_
    return sum_
