"""Builders: one function a primitive, and the few compositions that rules and front ends share.

Nothing is broadcast or promoted here: operands have equal shapes and dtypes, or the table's rule raises.
Axes are non-negative. Front ends offer the comfortable forms.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from engine.core.dim import Dim, Shape
from engine.core.dtype import DType, int64, uint32
from engine.core.node import Node
from engine.core.opdef import make
from engine.core.region import LoopBody, Region, Save

ReduceKind: TypeAlias = Literal["sum", "prod", "max", "min", "any", "all"]
ScanKind: TypeAlias = Literal["sum", "prod", "max"]
IndexMode: TypeAlias = Literal["clamp", "wrap", "zero", "mirror", "checked"]
ScatterKind: TypeAlias = Literal["set", "add", "min", "max", "and", "or", "xor"]

# ---- leaves


def input(shape: Shape, dtype: DType) -> Node:
    """A leaf whose value is given when the graph is run, or already stands in ``value``."""
    return Node("input", (), (), shape, dtype)


def parameter(name: str, shape: Shape, dtype: DType) -> Node:
    return Node("parameter", (), (name,), shape, dtype)


def constant(value: float, dtype: DType) -> Node:
    """A scalar, rounded to ``dtype``."""
    return Node("constant", (), (dtype.encode(value),), (), dtype)


def iota(shape: Shape, axis: int, dtype: DType = int64) -> Node:
    """Element (i_0, …, i_n) is i_axis."""
    return make("iota", (), shape, axis, dtype)


def random_bits(key: Node, ordinal: Node, shape: Shape, turn: Node | None = None) -> Node:
    """uint32 words of Philox 4x32-10 for ``key`` uint32[2], call number ``ordinal`` uint32[] and, in a loop,
    the ``turn`` uint32[], which is 0 elsewhere.
    """
    return make("random_bits", (key, ordinal, constant(0, uint32) if turn is None else turn), shape)


# ---- elementwise, one operand


def neg(x: Node) -> Node:
    return make("neg", (x,))


def abs(x: Node) -> Node:
    return make("abs", (x,))


def sign(x: Node) -> Node:
    """-1, 0 or 1; a zero keeps its sign and NaN stays NaN."""
    return make("sign", (x,))


def exp(x: Node) -> Node:
    return make("exp", (x,))


def log(x: Node) -> Node:
    return make("log", (x,))


def log1p(x: Node) -> Node:
    return make("log1p", (x,))


def expm1(x: Node) -> Node:
    return make("expm1", (x,))


def sin(x: Node) -> Node:
    return make("sin", (x,))


def cos(x: Node) -> Node:
    return make("cos", (x,))


def tanh(x: Node) -> Node:
    return make("tanh", (x,))


def erf(x: Node) -> Node:
    return make("erf", (x,))


def sqrt(x: Node) -> Node:
    return make("sqrt", (x,))


def floor(x: Node) -> Node:
    return make("floor", (x,))


def rint(x: Node) -> Node:
    """The nearest integer, ties to even."""
    return make("rint", (x,))


def not_(x: Node) -> Node:
    """Logical for bool, bitwise for integers."""
    return make("not", (x,))


def cast(x: Node, dtype: DType) -> Node:
    """Floats become integers toward zero, saturating, NaN as 0; integers wrap; bool is ``x != 0``."""
    return make("cast", (x,), dtype)


def bitcast(x: Node, dtype: DType) -> Node:
    return make("bitcast", (x,), dtype)


# ---- elementwise, two operands and three


def add(a: Node, b: Node) -> Node:
    return make("add", (a, b))


def sub(a: Node, b: Node) -> Node:
    return make("sub", (a, b))


def mul(a: Node, b: Node) -> Node:
    return make("mul", (a, b))


def div(a: Node, b: Node) -> Node:
    """The quotient of floats; cast integers first."""
    return make("div", (a, b))


def pow(a: Node, b: Node) -> Node:
    return make("pow", (a, b))


def max(a: Node, b: Node) -> Node:
    """NaN if either is; -0 < +0."""
    return make("max", (a, b))


def min(a: Node, b: Node) -> Node:
    return make("min", (a, b))


def floordiv(a: Node, b: Node) -> Node:
    """Rounded down; for integers x // 0 is 0 and the lowest integer // -1 is itself."""
    return make("floordiv", (a, b))


def mod(a: Node, b: Node) -> Node:
    """The remainder of ``floordiv``: it has the sign of ``b``; for integers x % 0 is 0."""
    return make("mod", (a, b))


def atan2(a: Node, b: Node) -> Node:
    return make("atan2", (a, b))


def and_(a: Node, b: Node) -> Node:
    return make("and", (a, b))


def or_(a: Node, b: Node) -> Node:
    return make("or", (a, b))


def xor(a: Node, b: Node) -> Node:
    return make("xor", (a, b))


def shl(a: Node, b: Node) -> Node:
    """Zero where ``b`` is the width or more, or negative."""
    return make("shl", (a, b))


def shr(a: Node, b: Node) -> Node:
    """Arithmetic for signed integers; shifts by the width or more leave 0 or -1."""
    return make("shr", (a, b))


def lt(a: Node, b: Node) -> Node:
    return make("lt", (a, b))


def le(a: Node, b: Node) -> Node:
    return make("le", (a, b))


def eq(a: Node, b: Node) -> Node:
    return make("eq", (a, b))


def select(pred: Node, a: Node, b: Node) -> Node:
    """``a`` where ``pred`` holds, else ``b``."""
    return make("select", (pred, a, b))


# ---- movement


def reshape(x: Node, shape: Shape) -> Node:
    return make("reshape", (x,), shape)


def transpose(x: Node, perm: tuple[int, ...]) -> Node:
    """Axis i of the result is axis ``perm[i]`` of ``x``."""
    return make("transpose", (x,), perm)


def broadcast(x: Node, shape: Shape) -> Node:
    """Axes are aligned at the right; a literal 1 expands."""
    return make("broadcast", (x,), shape)


def slice(x: Node, starts: tuple[Dim, ...], sizes: tuple[Dim, ...], steps: tuple[int, ...]) -> Node:
    """Element i of an axis is element start + i·step; a negative step walks backwards."""
    return make("slice", (x,), starts, sizes, steps)


def pad(x: Node, fill: Node, low: tuple[Dim, ...], high: tuple[Dim, ...]) -> Node:
    """``low`` elements before and ``high`` after, each equal to the scalar ``fill``."""
    return make("pad", (x, fill), low, high)


def concat(operands: tuple[Node, ...], axis: int) -> Node:
    return make("concat", operands, axis)


# ---- reductions and products


def reduce(x: Node, kind: ReduceKind, axes: tuple[int, ...]) -> Node:
    """Removes ``axes``, which must rise strictly. sum and prod take floats and int64; any and all take
    bool.
    """
    return make("reduce", (x,), kind, axes)


def argreduce(x: Node, kind: Literal["max", "min"], axis: int) -> Node:
    """The first position of the extreme; NaN counts as the extreme."""
    return make("argreduce", (x,), kind, axis)


def scan(x: Node, kind: ScanKind, axis: int, reverse: bool = False) -> Node:
    """Inclusive running sum, product or maximum along ``axis``, from its end if ``reverse``."""
    return make("scan", (x,), kind, axis, reverse)


def dot(a: Node, b: Node) -> Node:
    """(batch…, M, K) by (batch…, K, N) gives (batch…, M, N)."""
    return make("dot", (a, b))


# ---- indices


def gather(x: Node, indices: tuple[Node, ...], mode: IndexMode) -> Node:
    """``x[indices]`` for k indices of shape S into the first k axes: shape S + x.shape[k:]."""
    return make("gather", (x, *indices), mode)


def scatter(x: Node, indices: tuple[Node, ...], values: Node, kind: ScatterKind, mode: IndexMode) -> Node:
    """``x`` with ``values``, shape S + x.shape[k:], combined into it at the indices in row-major order."""
    return make("scatter", (x, *indices, values), kind, mode)


# ---- markers


def detach(x: Node) -> Node:
    """``x``, through which no gradient flows."""
    return make("detach", (x,))


def pass_grad(x: Node) -> Node:
    """``x``, whose gradient passes unchanged; masks are not pushed through it."""
    return make("pass_grad", (x,))


def keep(x: Node) -> Node:
    """``x``, which is stored rather than computed again."""
    return make("keep", (x,))


# ---- regions


def loop(  # noqa: PLR0917  a loop's parts, in their order
    body: LoopBody,
    carries: tuple[Node, ...],
    constants: tuple[Node, ...],
    limit: Dim | None,
    count: Node | None = None,
    save: Save = "every",
) -> Node:
    """``limit`` turns of ``body``; with ``count``, an int64 scalar, that many (none where it is negative) and
    at most ``limit``.

    Items: 0 the number of turns taken, int64 of the shape of ``body.stop``; then the carries after the last
    turn; then a stack of each slice, of shape (limit, …), zeros where no turn was taken. ``save`` concerns
    the gradient.
    """
    counts = () if count is None else (count,)
    return make("loop", (*counts, *carries, *constants), body, limit, save)


def cond(pred: Node, then: Region, otherwise: Region, operands: tuple[Node, ...]) -> Node:
    """The results of ``then`` where ``pred``, a bool scalar, holds, else those of ``otherwise``; items in
    their order. Only the branch that is taken is computed.
    """
    return make("cond", (pred, *operands), then, otherwise)


def item(node: Node, index: int) -> Node:
    """A result of a loop or a condition."""
    return make("item", (node,), index)


# ---- compositions that rules and front ends share


def full(shape: Shape, dtype: DType, value: float) -> Node:
    """``value`` everywhere: a scalar constant, broadcast unless ``shape`` is ()."""
    scalar = constant(value, dtype)
    return broadcast(scalar, shape) if shape else scalar


def full_like(x: Node, value: float) -> Node:
    return full(x.shape, x.dtype, value)


def zeros_like(x: Node) -> Node:
    return full(x.shape, x.dtype, 0)


def ones_like(x: Node) -> Node:
    return full(x.shape, x.dtype, 1)


def sum(x: Node, axes: tuple[int, ...]) -> Node:
    """The sum over ``axes``; ``x`` itself for none."""
    return reduce(x, "sum", axes) if axes else x


def expand(x: Node, axes: tuple[int, ...], shape: Shape) -> Node:
    """``x`` spread over ``axes`` of ``shape``, which it lacks: what a reduction over them took away."""
    if not axes:
        return x
    ones = tuple([1 if axis in axes else size for axis, size in enumerate(shape)])
    return broadcast(reshape(x, ones), shape)


def take(x: Node, axis: int, start: Dim, size: Dim, step: int = 1) -> Node:
    """``size`` elements of one axis from ``start`` in steps of ``step``, all of the others."""
    starts: list[Dim] = [0] * x.rank
    sizes = list(x.shape)
    steps = [1] * x.rank
    starts[axis], sizes[axis], steps[axis] = start, size, step
    return slice(x, tuple(starts), tuple(sizes), tuple(steps))


def flip(x: Node, axis: int) -> Node:
    return take(x, axis, x.shape[axis] - 1, x.shape[axis], -1)


def swap_last(x: Node) -> Node:
    """The last two axes exchanged."""
    rank = x.rank
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))
