"""Products without one element and first-order recurrences along an axis, written in primitives.

The gradients of products need them: dividing the product by the element would fail at zeros.
"""

from __future__ import annotations

from engine.core import build as b
from engine.core.dim import Dim
from engine.core.node import Node
from engine.errors import GradientError


def shift(x: Node, axis: int, fill: Node, by: int = 1) -> Node:
    """Element i is x_(i-by), and ``fill`` where there is none; a negative ``by`` shifts toward the start."""
    low: list[Dim] = [0] * x.rank
    high: list[Dim] = [0] * x.rank
    low[axis], high[axis] = (by, 0) if by > 0 else (0, -by)
    padded = b.pad(x, fill, tuple(low), tuple(high))
    return b.take(padded, axis, 0 if by > 0 else -by, x.shape[axis])


def product_before(x: Node, axis: int) -> Node:
    """Element i is x_0 · … · x_(i-1)."""
    return b.scan(shift(x, axis, b.constant(1, x.dtype)), "prod", axis)


def product_after(x: Node, axis: int) -> Node:
    """Element i is x_(i+1) · … · x_(L-1)."""
    return b.scan(shift(x, axis, b.constant(1, x.dtype), -1), "prod", axis, True)


def suffix(x: Node, g: Node, axis: int) -> Node:
    """s_k = g_k + x_(k+1) s_(k+1), with nothing after the end, in log2(L) rounds.

    Round d knows s_k = total_k + factor_k · s_(k+d) and puts the same formula of element k + d into it.
    """
    length = x.shape[axis]
    if not isinstance(length, int):
        raise GradientError(
            f"the gradient of a running product needs a known length, axis {axis} has length {length}; "
            "record it with that size as an int"
        )
    zero = b.constant(0, x.dtype)
    total, factor = g, shift(x, axis, zero, -1)
    distance = 1
    while distance < length:
        total = b.add(total, b.mul(factor, shift(total, axis, zero, -distance)))
        factor = b.mul(factor, shift(factor, axis, zero, -distance))
        distance *= 2
    return total
