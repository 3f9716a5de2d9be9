"""A fused kernel at given sizes: the words it is told, and its chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from engine.compiler.cluster import block_count, partial_elements
from engine.compiler.lower import Lowered
from engine.core.dim import Dim, evaluate
from engine.emit.kernel import STRIP, step_elements

CHUNK_COST = 32768  # additions a chunk
CHUNK_LEAST = 1024  # elements, unless they are that many additions:
CHUNK_MOST = 1 << 22

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Sized:
    """``words`` are the kernel's dims, ``offsets`` in bytes where each buffer begins in its block.

    ``scratch`` are the bytes that each of the kernel's scratch buffers needs, ``partial`` the elements that
    each partial buffer has, ``elements`` the size of the space that it runs over.
    """

    words: list[int]
    chunks: int
    offsets: list[int]
    scratch: list[int]
    partial: int
    elements: int


def at_sizes(lowered: Lowered, sizes: Sizes) -> Sized:
    """The kernel of ``lowered`` with each symbol replaced by its size."""

    def value(dim: Dim) -> int:
        return dim if isinstance(dim, int) else evaluate(dim, sizes)

    outer = [value(dim) for dim in lowered.outer]
    rows, n = prod(outer), value(lowered.inner)
    down, across, chunks = _chunks(lowered, rows, n)
    padded = -(-n // STRIP) * STRIP
    words = [rows, n, down, across, *outer]
    offsets, scratch = [], []
    for buffer, layout in zip(lowered.kernel.buffers, lowered.layouts, strict=True):
        words += [value(dim) for dim in layout.outer]
        own = 0
        if buffer.scratch:
            own = padded
            if layout.rows is not None:
                own = value(layout.rows[0]) * step_elements(lowered.kernel)
        words += [value(layout.inner), own]
        for window in layout.windows:
            words += [value(edge) for edge in window]
        if layout.rows is not None:
            words += [value(dim) for dim in layout.rows]
        offsets.append(value(layout.offset) * buffer.dtype.size)
        if buffer.scratch:
            scratch.append(chunks * own * buffer.dtype.size)
    for layout in lowered.counters:
        words += [*[value(dim) for dim in layout.outer], value(layout.inner), value(layout.offset)]
    partial = 0
    if lowered.partials:
        partial = block_count(n) if lowered.kernel.kind == "blocks" else partial_elements(rows, n)
    return Sized(words, chunks, offsets, scratch, partial, rows * n)


def _chunks(lowered: Lowered, rows: int, n: int) -> tuple[int, int, int]:
    """Rows and columns a chunk, and how many chunks; they follow from sizes alone."""
    kind = lowered.kernel.kind
    if kind in ("columns", "finish"):
        return rows, STRIP, -(-n // STRIP)
    if kind == "total":
        return rows, n, 1
    cost = max(lowered.cost, 1)
    elements = max(min(CHUNK_LEAST, CHUNK_MOST // cost), CHUNK_COST // cost, STRIP)
    if kind == "blocks":
        down = max(1, block_count(elements))
        return down, n, -(-block_count(n) // down)
    if kind == "lanes":
        lanes = min(rows, 64)
        down = max(1, min(lanes, elements * lanes // max(rows * n, 1)))
        return down, max(n, 1), -(-lanes // down)
    if kind == "each" and any(buffer.along == "strided" for buffer in lowered.kernel.buffers):
        # tiles, so that rows next to each other find in the cache what is side by side across them
        across = min(max(n, 1), STRIP)
        down = max(1, elements // across)
    elif kind == "rows" or n <= elements:
        down = max(1, elements // max(n, 1))
        across = max(n, 1)
    else:
        down, across = 1, elements // STRIP * STRIP
    strips = 1 if kind == "rows" else max(1, -(-n // across))
    return down, across, -(-rows // down) * strips
