"""Sums of samples in the engine's fixed tree: blocks of 4,096 paths, combined as a binary counter counts."""

from __future__ import annotations

from collections.abc import Sequence

BLOCK = 4096

Row = tuple[float, ...]
"""The sums of one block."""


def total(rows: Sequence[Row]) -> Row:
    """The sum of blocks, in the order of ``reduce``: two neighbours of equal size become one at once."""
    nodes: list[Row] = []
    for block, row in enumerate(rows):
        nodes.append(row)
        bits = block
        while bits & 1:
            _fold(nodes)
            bits >>= 1
    while len(nodes) > 1:
        _fold(nodes)
    return nodes[0]


def _fold(nodes: list[Row]) -> None:
    right, left = nodes.pop(), nodes.pop()
    nodes.append(tuple([a + b for a, b in zip(left, right, strict=True)]))
