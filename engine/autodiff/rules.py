"""Gradient rules: from a node and the cotangent ``g`` of its value to the cotangent of each input.

Rules return nodes of the same primitives, so a gradient can be differentiated again. In the comments ``n``
is the node's value, ``g`` has n's shape, and a cotangent has the shape of its input. None: no gradient
flows there. Rules of elementwise primitives are linear in ``g`` element by element; ``differentiate``
relies on that when it pushes masks outward.
"""

from __future__ import annotations

from math import pi, prod
from math import sqrt as root
from typing import TypeAlias

from engine.autodiff import recurrence
from engine.core import build as b
from engine.core.dim import Dim, Shape
from engine.core.dtype import bfloat16, bool_, float32, int64
from engine.core.node import Node

Cotangents: TypeAlias = tuple[Node | None, ...]

# ---- elementwise


def same(n: Node, g: Node) -> Cotangents:
    return (g,)


def neg(n: Node, g: Node) -> Cotangents:
    return (b.neg(g),)


def abs_(n: Node, g: Node) -> Cotangents:
    # g sign(x), which is 0 at 0
    return (b.mul(g, b.sign(n.inputs[0])),)


def exp(n: Node, g: Node) -> Cotangents:
    return (b.mul(g, n),)


def log(n: Node, g: Node) -> Cotangents:
    return (b.div(g, n.inputs[0]),)


def log1p(n: Node, g: Node) -> Cotangents:
    # g / (1 + x)
    x = n.inputs[0]
    return (b.div(g, b.add(b.ones_like(x), x)),)


def expm1(n: Node, g: Node) -> Cotangents:
    # g e^x; n + 1 would cancel for very negative x
    return (b.mul(g, b.exp(n.inputs[0])),)


def sin(n: Node, g: Node) -> Cotangents:
    return (b.mul(g, b.cos(n.inputs[0])),)


def cos(n: Node, g: Node) -> Cotangents:
    return (b.neg(b.mul(g, b.sin(n.inputs[0]))),)


def tanh(n: Node, g: Node) -> Cotangents:
    # g (1 - n²)
    return (b.mul(g, b.sub(b.ones_like(n), b.mul(n, n))),)


def erf(n: Node, g: Node) -> Cotangents:
    # g · 2/√π · e^(-x²)
    x = n.inputs[0]
    return (b.mul(g, b.mul(b.full_like(x, 2 / root(pi)), b.exp(b.neg(b.mul(x, x))))),)


def sqrt(n: Node, g: Node) -> Cotangents:
    # g / 2n, which is ±inf at 0
    return (b.div(b.mul(g, b.full_like(g, 0.5)), n),)


def add(n: Node, g: Node) -> Cotangents:
    return (g, g)


def sub(n: Node, g: Node) -> Cotangents:
    return (g, b.neg(g))


def mul(n: Node, g: Node) -> Cotangents:
    x, y = n.inputs
    part = b.mul(g, y)
    return (part, part if x is y else b.mul(g, x))


def div(n: Node, g: Node) -> Cotangents:
    # g / y and -(g / y) · n
    scaled = b.div(g, n.inputs[1])
    return (scaled, b.neg(b.mul(scaled, n)))


def pow_(n: Node, g: Node) -> Cotangents:
    # g y x^(y-1), taken as 0 where x and y are; g n log x, taken as 0 where x is, NaN where x is negative
    x, y = n.inputs
    zero = b.zeros_like(g)
    at_zero = b.eq(x, zero)
    slope = b.mul(y, b.pow(x, b.sub(y, b.ones_like(y))))
    return (
        b.select(b.and_(at_zero, b.eq(y, zero)), zero, b.mul(g, slope)),
        b.select(at_zero, zero, b.mul(g, b.mul(n, b.log(x)))),
    )


def max_(n: Node, g: Node) -> Cotangents:
    # g to the larger operand, g/2 to each where they are equal
    x, y = n.inputs
    shared, zero = _half_where_equal(n, g), b.zeros_like(g)
    return (b.select(b.le(y, x), shared, zero), b.select(b.le(x, y), shared, zero))


def min_(n: Node, g: Node) -> Cotangents:
    x, y = n.inputs
    shared, zero = _half_where_equal(n, g), b.zeros_like(g)
    return (b.select(b.le(x, y), shared, zero), b.select(b.le(y, x), shared, zero))


def _half_where_equal(n: Node, g: Node) -> Node:
    return b.select(b.eq(*n.inputs), b.mul(g, b.full_like(g, 0.5)), g)


def mod(n: Node, g: Node) -> Cotangents:
    # x - y ⌊x/y⌋: g and -g ⌊x/y⌋
    return (g, b.neg(b.mul(g, b.floordiv(*n.inputs))))


def atan2(n: Node, g: Node) -> Cotangents:
    # of y and x: g x / (x² + y²) and -g y / (x² + y²)
    y, x = n.inputs
    scaled = b.div(g, b.add(b.mul(x, x), b.mul(y, y)))
    return (b.mul(scaled, x), b.neg(b.mul(scaled, y)))


def select(n: Node, g: Node) -> Cotangents:
    pred = n.inputs[0]
    zero = b.zeros_like(g)
    return (None, b.select(pred, g, zero), b.select(pred, zero, g))


def cast(n: Node, g: Node) -> Cotangents:
    x = n.inputs[0]
    return (b.cast(g, x.dtype) if x.dtype.is_float else None,)


# ---- movement


def reshape(n: Node, g: Node) -> Cotangents:
    return (b.reshape(g, n.inputs[0].shape),)


def transpose(n: Node, g: Node) -> Cotangents:
    perm = n.attrs[0]
    inverse = [0] * len(perm)
    for axis, source in enumerate(perm):
        inverse[source] = axis
    return (b.transpose(g, tuple(inverse)),)


def broadcast(n: Node, g: Node) -> Cotangents:
    # the sum over the axes that were introduced or expanded; the reshape puts expanded ones back as 1
    x = n.inputs[0]
    lead = n.rank - x.rank
    expanded = [lead + axis for axis, size in enumerate(x.shape) if size != n.shape[lead + axis]]
    summed = b.sum(g, (*range(lead), *expanded))
    return (b.reshape(summed, x.shape) if expanded else summed,)


def slice_(n: Node, g: Node) -> Cotangents:
    # zeros around g, and between its elements where the step is not 1; a negative step first turns g around
    x = n.inputs[0]
    starts, sizes, steps = n.attrs
    if 0 in sizes:
        return (b.zeros_like(x),)
    lows = list(starts)
    for axis, step in enumerate(steps):
        if step < 0:
            g = b.flip(g, axis)
            lows[axis] = starts[axis] + (sizes[axis] - 1) * step
    g = _spread(g, tuple(map(abs, steps)))
    highs = [size - low - span for size, low, span in zip(x.shape, lows, g.shape, strict=True)]
    return (b.pad(g, b.constant(0, g.dtype), tuple(lows), tuple(highs)),)


def _spread(g: Node, steps: tuple[int, ...]) -> Node:
    """(m, …) to ((m - 1)·step + 1, …): step - 1 zeros between neighbours."""
    if all(step == 1 for step in steps):
        return g
    sizes = g.shape
    interleaved: list[Dim] = [dim for size in sizes for dim in (size, 1)]  # (m, 1, …)
    high = [amount for step in steps for amount in (0, step - 1)]
    g = b.pad(b.reshape(g, tuple(interleaved)), b.constant(0, g.dtype), (0,) * len(high), tuple(high))
    g = b.reshape(g, tuple([size * step for size, step in zip(sizes, steps, strict=True)]))
    spans = tuple([(size - 1) * step + 1 for size, step in zip(sizes, steps, strict=True)])
    return b.slice(g, (0,) * len(spans), spans, (1,) * len(spans))


def pad(n: Node, g: Node) -> Cotangents:
    # the inner part of g, and the sum of the rest for the fill value
    x, fill = n.inputs
    low, high = n.attrs
    inner = b.slice(g, low, x.shape, (1,) * x.rank)
    if fill.op == "constant":
        return (inner, None)
    inside = b.pad(b.full(x.shape, bool_, True), b.constant(False, bool_), low, high)
    return (inner, b.sum(b.select(inside, b.zeros_like(g), g), tuple(range(g.rank))))


def concat(n: Node, g: Node) -> Cotangents:
    axis = n.attrs[0]
    parts = []
    start: Dim = 0
    for x in n.inputs:
        parts.append(b.take(g, axis, start, x.shape[axis]))
        start = start + x.shape[axis]
    return tuple(parts)


# ---- reductions and products


def reduce(n: Node, g: Node) -> Cotangents:
    kind, axes = n.attrs
    x = n.inputs[0]
    if kind == "sum":
        return (b.expand(g, axes, x.shape),)
    if kind == "prod":
        return (_reduce_prod(x, axes, g),)
    # max and min: g / count to each of the elements that equal the extreme
    extreme = b.eq(x, b.expand(n, axes, x.shape))
    share = _share(g, b.sum(_count(extreme, n), axes))
    return (b.select(extreme, b.expand(share, axes, x.shape), b.zeros_like(x)),)


def _count(mask: Node, like: Node) -> Node:
    """1 where ``mask`` holds, in the dtype that sums of ``like``'s are accumulated in."""
    return b.cast(mask, float32 if like.dtype is bfloat16 else like.dtype)


def _share(g: Node, count: Node) -> Node:
    """g / count, divided in the dtype of ``count``."""
    if g.dtype is count.dtype:
        return b.div(g, count)
    return b.cast(b.div(b.cast(g, count.dtype), count), g.dtype)


def _reduce_prod(x: Node, axes: tuple[int, ...], g: Node) -> Node:
    """g times the product of all other elements: those before times those after, so zeros do no harm."""
    if not axes:
        return g
    rest = tuple([axis for axis in range(x.rank) if axis not in axes])
    perm = rest + axes
    moved = b.transpose(x, perm)
    outer = tuple([x.shape[axis] for axis in rest])
    flat = b.reshape(moved, (*outer, prod([x.shape[axis] for axis in axes])))  # (rest…, L)
    last = len(outer)
    others = b.mul(recurrence.product_before(flat, last), recurrence.product_after(flat, last))
    moved = b.reshape(b.mul(b.expand(g, (last,), flat.shape), others), moved.shape)
    inverse = tuple([perm.index(axis) for axis in range(x.rank)])
    return b.transpose(moved, inverse)


def scan(n: Node, g: Node) -> Cotangents:
    kind, axis, reverse = n.attrs
    x = n.inputs[0]
    if kind == "sum":
        return (b.scan(g, "sum", axis, not reverse),)
    rule = _scan_prod if kind == "prod" else _scan_max
    if reverse:
        return (b.flip(rule(b.flip(x, axis), b.flip(n, axis), axis, b.flip(g, axis)), axis),)
    return (rule(x, n, axis, g),)


def _scan_prod(x: Node, n: Node, axis: int, g: Node) -> Node:
    # dx_k = (product before k) · s_k, where s_k = g_k + x_(k+1) s_(k+1): no division, so zeros do no harm
    return b.mul(recurrence.product_before(x, axis), recurrence.suffix(x, g, axis))


def _scan_max(x: Node, n: Node, axis: int, g: Node) -> Node:
    # g_i to the first position that holds the maximum up to i
    fill = b.constant(float("-inf") if x.dtype.is_float else 0, x.dtype)
    before = recurrence.shift(n, axis, fill)
    position = b.iota(x.shape, axis)
    first = b.scan(b.select(b.lt(before, x), position, b.zeros_like(position)), "max", axis)
    indices = tuple([first if a == axis else b.iota(x.shape, a) for a in range(x.rank)])
    return b.scatter(b.zeros_like(x), indices, g, "add", "checked")


def dot(n: Node, g: Node) -> Cotangents:
    # a (…, M, K), b (…, K, N), g (…, M, N): g bᵀ and aᵀ g
    x, y = n.inputs
    return (b.dot(g, b.swap_last(y)), b.dot(b.swap_last(x), g))


# ---- indices


def gather(n: Node, g: Node) -> Cotangents:
    x, *indices = n.inputs
    return (b.scatter(b.zeros_like(x), tuple(indices), g, "add", n.attrs[0]), *(None for _ in indices))


def scatter(n: Node, g: Node) -> Cotangents:
    kind, mode = n.attrs
    x, *rest = n.inputs
    indices, values = tuple(rest[:-1]), rest[-1]
    if kind == "add":
        dx, dvalues = g, b.gather(g, indices, mode)
    elif kind == "set":
        dx = b.scatter(g, indices, b.zeros_like(values), "set", mode)
        dvalues = _winners_only(x, indices, b.gather(g, indices, mode), mode)
    else:
        dx, dvalues = _scatter_extreme(n, x, indices, values, g)
    return (dx, *(None for _ in indices), dvalues)


def _winners_only(x: Node, indices: tuple[Node, ...], g: Node, mode: b.IndexMode) -> Node:
    """``g`` (S + x.shape[k:]) where an update was the last to write its element of ``x``, 0 where one
    followed.
    """
    source = indices[0].shape
    count = prod(source)
    if count == 1:
        return g
    position = b.reshape(b.iota((count,), 0), source)
    table = b.scatter(b.full(x.shape[: len(indices)], int64, 0), indices, position, "set", mode)
    winner = b.eq(b.gather(table, indices, mode), position)
    return b.select(_over_rows(winner, g.shape), g, b.zeros_like(g))


def _over_rows(mask: Node, shape: Shape) -> Node:
    """``mask`` of shape S over S + rest."""
    return b.expand(mask, tuple(range(mask.rank, len(shape))), shape)


def _scatter_extreme(n: Node, x: Node, indices: tuple[Node, ...], values: Node, g: Node) -> tuple[Node, Node]:
    # g / count to the old element and each of the values that equal the result there
    mode = n.attrs[1]
    kept = b.eq(x, n)
    equal = b.eq(values, b.gather(n, indices, mode))
    share = _share(g, b.scatter(_count(kept, n), indices, _count(equal, n), "add", mode))
    dvalues = b.select(equal, b.gather(share, indices, mode), b.zeros_like(values))
    return b.select(kept, share, b.zeros_like(x)), dvalues
