"""Rewriting a graph by rules that keep every bit: infinities, signs of zeros, denormals, and NaN as NaN.

Precondition: any graph. Postcondition: the same values from no more nodes; what nothing reads is gone. What
rounding forbids has no rule here: x + 0.0 loses -0, x * 0 loses NaN, and x / y is not x * (1 / y) unless 1 /
y is exact.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from math import frexp, isfinite

from engine.compiler.access import is_movement, moved, whole
from engine.core import build as b
from engine.core.dim import Shape
from engine.core.dtype import FLOATS, DType, bfloat16, bool_, float32, float64, int32, int64, uint32
from engine.core.node import Node
from engine.core.opdef import OPS, make
from engine.core.walk import post_order

Rule = Callable[[Node], Node | None]

_WIDENS = {  # casts that lose nothing: from each dtype to those that hold all its values
    bfloat16: (float32, float64),
    float32: (float64,),
    int32: (int64, float64),
    uint32: (int64, float64),
    bool_: (int32, int64, uint32, bfloat16, float32, float64),
}


def simplify(targets: Sequence[Node]) -> list[Node]:
    """Nodes with the values of ``targets``. One visit a node, and one more for each rewrite."""
    order = post_order(targets)
    readers: dict[Node, int] = dict.fromkeys(targets, 2)
    for node in order:
        for operand in node.inputs:
            readers[operand] = readers.get(operand, 0) + 1
    simple: dict[Node, Node] = {}
    shared: set[Node] = set()  # rewritten nodes with several readers
    for node in order:
        inputs = tuple([simple[operand] for operand in node.inputs])
        same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        current = node if same else Node(node.op, inputs, node.attrs, node.shape, node.dtype)
        simple[node] = current = rewritten(current, shared)
        if readers.get(node, 0) > 1:
            shared.add(current)
    return [simple[target] for target in targets]


def rewritten(node: Node, shared: set[Node]) -> Node:
    """``node`` after all rules that apply to it; its inputs are simple already."""
    while True:
        following = _step(node)
        if following is None and node.op in _SINKING:
            following = _SINKING[node.op](node, shared)
        if following is None:
            return node
        node = following


def _step(node: Node) -> Node | None:
    for rule in (*_RULES.get(node.op, ()), *_KIND_RULES.get(OPS[node.op].kind, ())):
        following = rule(node)
        if following is not None:
            return following
    return None


# ---- scalars spread over a shape


def splat(node: Node) -> bytes | None:
    """The bytes of the one value that every element of ``node`` has, if that is a constant."""
    if node.op == "broadcast":
        node = node.inputs[0]
    return node.attrs[0] if node.op == "constant" else None


def _value(node: Node) -> float | None:
    raw = splat(node)
    return None if raw is None else _decoded(raw, node.dtype)


def _decoded(raw: bytes, dtype: DType) -> float:
    if dtype is bfloat16:
        raw, dtype = b"\0\0" + raw, float32
    (value,) = struct.unpack(f"<{dtype.struct}", raw)
    return value  # type: ignore[no-any-return]


def _is(node: Node, value: float) -> bool:
    """Whether every element is ``value``, its sign included."""
    raw = splat(node)
    return raw is not None and raw == node.dtype.encode(value)


def _spread(scalar: Node, shape: Shape) -> Node:
    return b.broadcast(scalar, shape) if shape else scalar


# ---- arithmetic


def _either(node: Node, value: float) -> Node | None:
    """The operand whose partner is ``value`` everywhere."""
    x, y = node.inputs
    return x if _is(y, value) else y if _is(x, value) else None


def _add_nothing(node: Node) -> Node | None:
    """x + -0.0 = x, and x + 0 = x for integers."""
    return _either(node, -0.0 if node.dtype in FLOATS else 0)


def _add_negated(node: Node) -> Node | None:
    """x + -y = x - y."""
    x, y = node.inputs
    if y.op == "neg":
        return b.sub(x, y.inputs[0])
    return b.sub(y, x.inputs[0]) if x.op == "neg" else None


def _sub_nothing(node: Node) -> Node | None:
    """x - 0.0 = x."""
    return node.inputs[0] if _is(node.inputs[1], 0) else None


def _sub_negated(node: Node) -> Node | None:
    """x - -y = x + y."""
    x, y = node.inputs
    return b.add(x, y.inputs[0]) if y.op == "neg" else None


def _mul_one(node: Node) -> Node | None:
    return _either(node, 1)


def _div_exact(node: Node) -> Node | None:
    """x / 2^k = x * 2^-k where 2^-k is a normal number: both are the same quotient, rounded once."""
    x, y = node.inputs
    value = _value(y)
    if value is None or not isfinite(value) or value == 0:
        return None
    mantissa, exponent = frexp(value)
    least, most = {float64: (-1022, 1023)}.get(node.dtype, (-126, 127))
    if abs(mantissa) != 0.5 or not least <= 1 - exponent <= most:
        return None
    if value == 1:
        return x
    return b.mul(x, _spread(b.constant(1 / value, y.dtype), y.shape))


def _twice(node: Node) -> Node | None:
    """--x = x and ~~x = x."""
    x = node.inputs[0]
    return x.inputs[0] if x.op == node.op else None


def _abs_of_sign(node: Node) -> Node | None:
    """|-x| = |x| and ||x|| = |x|, for floats."""
    x = node.inputs[0]
    return b.abs(x.inputs[0]) if x.op in ("neg", "abs") and x.dtype in FLOATS else None


def _of_itself(node: Node) -> Node | None:
    """max(x, x) = x; so min, and, or."""
    x, y = node.inputs
    return x if x is y else None


def _select_known(node: Node) -> Node | None:
    pred, x, y = node.inputs
    if x is y:
        return x
    raw = splat(pred)
    return None if raw is None else x if raw != b"\0" else y


def _select_inverted(node: Node) -> Node | None:
    """select(not p, x, y) = select(p, y, x)."""
    pred, x, y = node.inputs
    return b.select(pred.inputs[0], y, x) if pred.op == "not" else None


def _cast(node: Node) -> Node | None:
    """A cast to the own dtype is nothing; what was widened may be cast from where it came."""
    x = node.inputs[0]
    if x.dtype is node.dtype:
        return x
    if x.op != "cast" or x.dtype not in _WIDENS.get(x.inputs[0].dtype, ()):
        return None
    source = x.inputs[0]
    return source if source.dtype is node.dtype else b.cast(source, node.dtype)


def _bitcast(node: Node) -> Node | None:
    x = node.inputs[0]
    return x if x.dtype is node.dtype else None


# ---- elementwise primitives of constants


def _of_scalars(node: Node) -> Node | None:
    """f(c, d, …) over a shape is computed once and spread."""
    if not node.shape or any(splat(operand) is None for operand in node.inputs):
        return None
    scalar = make(node.op, tuple([operand.inputs[0] for operand in node.inputs]), *node.attrs)
    return _spread(_folded(scalar) or scalar, node.shape)


_ARITHMETIC: dict[str, Callable[..., float]] = {
    "neg": lambda x: -x,
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}


def _folded(node: Node) -> Node | None:
    """Arithmetic of float constants: a float64 result rounded to float32 is the float32 result."""
    compute = _ARITHMETIC.get(node.op)
    if compute is None or node.shape or node.dtype not in (float32, float64):
        return None
    values = [_value(operand) for operand in node.inputs]
    if any(value is None or not isfinite(value) for value in values):
        return None
    try:
        result = compute(*values)
        return b.constant(result, node.dtype) if isfinite(result) else None
    except (ZeroDivisionError, OverflowError):
        return None


# ---- movement


def _moves_nothing(node: Node) -> Node | None:
    """The same shape, and every element where it was."""
    x = node.inputs[0]
    if x.shape != node.shape:
        return None
    if node.op == "transpose":
        return x if node.attrs[0] == tuple(range(node.rank)) else None
    if node.op == "slice":
        starts, _, steps = node.attrs
        return x if all(s == 0 for s in starts) and all(s == 1 for s in steps) else None
    return x


def _of_scalar(node: Node) -> Node | None:
    """A constant is the same wherever it is moved."""
    x = node.inputs[0]
    if x.op == "broadcast" and splat(x) is not None:
        scalar = x.inputs[0]
        return scalar if not node.shape else _spread(scalar, node.shape)
    return None


def _compose(node: Node) -> Node | None:
    """Two movements of a kind are one."""
    x = node.inputs[0]
    if x.op != node.op:
        return None
    source = x.inputs[0]
    if node.op == "reshape":
        return b.reshape(source, node.shape)
    if node.op == "transpose":
        return b.transpose(source, tuple([x.attrs[0][axis] for axis in node.attrs[0]]))
    if node.op == "broadcast":
        return b.broadcast(source, node.shape)
    starts, sizes, steps = node.attrs
    first, _, stride = x.attrs
    placed = [
        s + k * start if size != 0 else s
        for s, k, start, size in zip(first, stride, starts, sizes, strict=True)
    ]
    along = tuple([k * step for k, step in zip(stride, steps, strict=True)])
    return b.slice(source, tuple(placed), sizes, along)


def _slice_of_pad(node: Node) -> Node | None:
    """A slice that lies inside what was padded."""
    x = node.inputs[0]
    if x.op != "pad":
        return None
    starts, sizes, steps = node.attrs
    low, source = x.attrs[0], x.inputs[0]
    placed = []
    for start, size, step, first, have in zip(starts, sizes, steps, low, source.shape, strict=True):
        begin = start - first
        if not all(isinstance(n, int) for n in (begin, size, have)) or size == 0:
            return None
        if not (0 <= begin < have and 0 <= begin + (size - 1) * step < have):
            return None
        placed.append(begin)
    return b.slice(source, tuple(placed), sizes, steps)


def _slice_of_concat(node: Node) -> Node | None:
    """A slice that lies inside one operand of a concatenation."""
    x = node.inputs[0]
    if x.op != "concat":
        return None
    starts, sizes, steps = node.attrs
    (axis,) = x.attrs
    start, size, step = starts[axis], sizes[axis], steps[axis]
    if not isinstance(start, int) or not isinstance(size, int) or size == 0:
        return None
    before = 0
    for operand in x.inputs:
        have = operand.shape[axis]
        if not isinstance(have, int):
            return None
        if all(before <= place < before + have for place in (start, start + (size - 1) * step)):
            placed = (*starts[:axis], start - before, *starts[axis + 1 :])
            return b.slice(operand, placed, sizes, steps)
        before += have
    return None


def _pad_nothing(node: Node) -> Node | None:
    """A border of no width, or around a constant of the same value."""
    x, fill = node.inputs
    if all(n == 0 for widths in node.attrs for n in widths):
        return x
    raw = splat(x)
    return _spread(fill, node.shape) if raw is not None and raw == splat(fill) else None


def _concat_one(node: Node) -> Node | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _reduce_ones(node: Node) -> Node | None:
    """A reduction over axes of size 1 combines nothing."""
    x, (_, axes) = node.inputs[0], node.attrs
    return b.reshape(x, node.shape) if all(x.shape[axis] == 1 for axis in axes) else None


def _iota_of_one_axis(node: Node) -> Node | None:
    """A count along one of several axes is a range, spread over the others."""
    shape, axis, dtype = node.attrs
    if len(shape) == 1:
        return None
    column = b.reshape(b.iota((shape[axis],), 0, dtype), (shape[axis], *(1,) * (len(shape) - axis - 1)))
    return column if column.shape == shape else b.broadcast(column, shape)


def _marker(node: Node) -> Node:
    return node.inputs[0]


def _sunk(node: Node, shared: set[Node]) -> Node | None:
    """A reshape that needs a copy, of f(x): f of the reshape, so that whatever copies x also computes f.

    The movements in between and f have no other reader, and other operands of f are constants.
    """
    chain = [node]
    f = node.inputs[0]
    while is_movement(f) and f not in shared:
        chain.append(f)
        f = f.inputs[0]
    if f in shared or OPS[f.op].kind != "elementwise" or len(chain) == 1:
        return None
    varying = [operand for operand in f.inputs if splat(operand) is None]
    if len(set(varying)) != 1:
        return None
    access = whole(f)
    for movement in reversed(chain):
        access = moved(movement, access)
    if access.source is not node:
        return None

    def carried(x: Node) -> Node:
        if splat(x) is not None:
            return _spread(x.inputs[0] if x.op == "broadcast" else x, node.shape)
        for movement in reversed(chain):
            x = make(movement.op, (x,), *movement.attrs)
        return x

    return make(f.op, tuple([carried(operand) for operand in f.inputs]), *f.attrs)


def _pad_sunk(node: Node, shared: set[Node]) -> Node | None:
    """pad(x * c, +0) = pad(x, +0) * c for a positive c, so that borders are around what is in memory."""
    f, fill = node.inputs
    if f.op != "mul" or f in shared or not _is(fill, 0) or f.dtype not in FLOATS:
        return None
    for x, c in (f.inputs, f.inputs[::-1]):
        value = _value(c)
        if value is not None and splat(x) is None and isfinite(value) and value > 0:
            scalar = c.inputs[0] if c.op == "broadcast" else c
            return b.mul(b.pad(x, fill, *node.attrs), _spread(scalar, node.shape))
    return None


def _product_turned(node: Node, shared: set[Node]) -> Node | None:
    """(a b)ᵀ = bᵀ aᵀ: the same products in the same order, and no reader goes across the rows."""
    product, (order,) = node.inputs[0], node.attrs
    swapped = (*range(node.rank - 2), node.rank - 1, node.rank - 2)
    if product.op != "dot" or product in shared or order != swapped:
        return None

    def turned(x: Node) -> Node:
        across = b.transpose(x, order)
        straight = _compose(across) or across
        return _moves_nothing(straight) or straight

    first, second = product.inputs
    return b.dot(turned(second), turned(first))


_SINKING: dict[str, Callable[[Node, set[Node]], Node | None]] = {
    "reshape": _sunk,
    "pad": _pad_sunk,
    "transpose": _product_turned,
}
_RULES: dict[str, tuple[Rule, ...]] = {
    "add": (_add_nothing, _add_negated),
    "sub": (_sub_nothing, _sub_negated),
    "mul": (_mul_one,),
    "div": (_div_exact,),
    "neg": (_twice,),
    "not": (_twice,),
    "abs": (_abs_of_sign,),
    **dict.fromkeys(("max", "min", "and", "or"), (_of_itself,)),
    "select": (_select_known, _select_inverted),
    "cast": (_cast,),
    "bitcast": (_bitcast,),
    **dict.fromkeys(("reshape", "transpose", "broadcast"), (_moves_nothing, _of_scalar, _compose)),
    "slice": (_moves_nothing, _of_scalar, _compose, _slice_of_pad, _slice_of_concat),
    "pad": (_pad_nothing,),
    "concat": (_concat_one,),
    "reduce": (_reduce_ones,),
    "iota": (_iota_of_one_axis,),
    "detach": (_marker,),
    "pass_grad": (_marker,),
}
_KIND_RULES: dict[str, tuple[Rule, ...]] = {"elementwise": (_of_scalars, _folded)}


def rules() -> Iterator[Rule]:
    """Every rule once; each has a test over special values."""
    yield from dict.fromkeys([rule for own in (*_RULES.values(), *_KIND_RULES.values()) for rule in own])
