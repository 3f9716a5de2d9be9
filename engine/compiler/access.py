"""How a node is read: movement primitives are index maps onto the buffer of the node that they move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.compiler.extent import common_refinement, contiguous, product, quotient, solid, split
from engine.core.dim import Dim, Shape
from engine.core.node import Node

Window = tuple[Dim, Dim]
"""The indices of an axis, from the first to before the second, at which a buffer has elements."""


@dataclass(frozen=True, slots=True)
class Access:
    """Element (i_0, …) of ``shape`` is element ``offset + Σ i·stride`` of the row-major buffer of ``source``.

    ``windows``, where not empty, says for each axis which indices are in the buffer; others read a fill
    value. ``rows``, where there, are how many rows like this one lie how far apart; which of them is read is
    known only when a kernel runs.
    """

    source: Node
    shape: Shape
    offset: Dim
    strides: tuple[Dim, ...]
    windows: tuple[Window | None, ...] = ()
    rows: tuple[Dim, Dim] | None = None

    def over(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
        """The strides along ``dims``, a refinement of this shape without its ones; None where it is none."""
        steps = [stride for size, stride in zip(self.shape, self.strides, strict=True) if size != 1]
        parts = split(solid(self.shape), dims)
        if parts is None or self.bounds(dims) is None:
            return None
        result: list[Dim] = []
        for part, stride in zip(parts, steps, strict=True):
            result += [stride * inner for inner in contiguous([dims[k] for k in part])]
        return tuple(result)

    def bounds(self, dims: tuple[Dim, ...]) -> tuple[Window | None, ...] | None:
        """The windows along ``dims``; None where one has no bounds: [3, 7) of 12 does not cut (3, 4)."""
        if not self.windows:
            return (None,) * len(dims)
        own = [window for size, window in zip(self.shape, self.windows, strict=True) if size != 1]
        parts = split(solid(self.shape), dims)
        if parts is None:
            return None
        result: list[Window | None] = [None] * len(dims)
        for part, window in zip(parts, own, strict=True):
            if window is None:
                continue
            inner = product([dims[k] for k in part[1:]])
            low, high = (quotient(edge, inner) if edge != 0 else 0 for edge in window)
            if low is None or high is None:
                return None
            result[part[0]] = (low, high)
        return tuple(result)


def whole(node: Node) -> Access:
    """All of a buffer, as it lies."""
    return Access(node, node.shape, 0, contiguous(node.shape))


def moved(node: Node, x: Access) -> Access:
    """How the value of a movement primitive is read, given how its operand is.

    A reshape that strides cannot express has a buffer of its own, filled by a copy.
    """
    found: Access | None = _MOVES[node.op](x, *node.attrs)
    return whole(node) if found is None else found


def recut(sizes: Shape, dims: Shape, whole_sizes: Shape, low: tuple[Dim, ...]) -> tuple[Shape, Shape] | None:
    """``whole_sizes`` and ``low`` of a padding of ``sizes``, cut as ``dims`` cut those; None where that is no
    border.

    (128,) cut (4, 32) and padded by 256 to (384,) becomes (12, 32) padded by (8, 0).
    """
    shape: list[Dim] = []
    lows: list[Dim] = []
    parts = split(solid(sizes), dims)
    if parts is None:
        return None
    cut = iter(parts)
    for size, total, first in zip(sizes, whole_sizes, low, strict=True):
        if size == 1 and total == 1:
            continue
        if size == 1:
            return None
        part = next(cut)
        inner = product([dims[k] for k in part[1:]])
        outer, start = quotient(total, inner), quotient(first, inner) if first != 0 else 0
        if outer is None or start is None:
            return None
        shape += [outer, *[dims[k] for k in part[1:]]]
        lows += [start, *[0] * (len(part) - 1)]
    return tuple(shape), tuple(lows)


def padded(x: Access, shape: Shape, low: tuple[Dim, ...]) -> Access:
    """``x`` with a border: ``low`` elements before the first of each axis, the rest of ``shape`` after the
    last.
    """
    offset = x.offset
    windows: list[Window | None] = []
    for first, size, stride, whole_size in zip(low, x.shape, x.strides, shape, strict=True):
        offset = offset - first * stride
        windows.append(None if size == whole_size else (first, first + size))
    return Access(x.source, shape, offset, x.strides, tuple(windows) if any(windows) else ())


def _same(x: Access) -> Access:
    return x


def _transpose(x: Access, perm: tuple[int, ...]) -> Access:
    return Access(
        x.source,
        tuple([x.shape[axis] for axis in perm]),
        x.offset,
        tuple([x.strides[axis] for axis in perm]),
    )


def _broadcast(x: Access, shape: Shape) -> Access:
    lead = len(shape) - len(x.shape)
    strides: list[Dim] = [0] * lead
    for size, stride, new in zip(x.shape, x.strides, shape[lead:], strict=True):
        strides.append(stride if size == new and size != 1 else 0)
    return Access(x.source, shape, x.offset, tuple(strides))


def _slice(x: Access, starts: tuple[Dim, ...], sizes: Shape, steps: tuple[int, ...]) -> Access:
    offset = x.offset
    for start, size, stride in zip(starts, sizes, x.strides, strict=True):
        offset = offset + (start * stride if size != 0 else 0)
    strides = tuple([stride * step for stride, step in zip(x.strides, steps, strict=True)])
    return Access(x.source, sizes, offset, strides)


def _reshape(x: Access, shape: Shape) -> Access | None:
    if 0 in shape:
        return Access(x.source, shape, 0, contiguous(shape))
    old, new = solid(x.shape), solid(shape)
    refined = common_refinement(old, new)
    steps = None if refined is None else x.over(refined)
    parts = None if refined is None else split(new, refined)
    if refined is None or steps is None or parts is None:
        return None
    joined: list[Dim] = []
    for part in parts:
        inner = steps[part[-1]]
        if any(steps[k] != refined[k + 1] * steps[k + 1] for k in part[:-1]):
            return None
        joined.append(inner)
    strides = iter(joined)
    return Access(x.source, shape, x.offset, tuple([0 if size == 1 else next(strides) for size in shape]))


_MOVES: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "detach": _same,
    "pass_grad": _same,
    "keep": _same,
}


def is_movement(node: Node) -> bool:
    """Whether ``node`` may be an index map; whether it is one is for ``moved`` to say."""
    return node.op in _MOVES
