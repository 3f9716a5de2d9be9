"""The language of compile jobs: functions of tensors, the shape and dtype of what each gives, and its cost.

Nothing here computes, so that who only checks and prices an expression loads no device. ``record`` gives the
same functions their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from engine.core import ops  # noqa: F401  fills OPS
from engine.core.dtype import ALL, DType, bfloat16, bool_, float32, int64, promote, scalar_dtype
from engine.core.opdef import OPS
from engine.core.shapes import axes_of, axis_of, check_sizes, common_shape, text
from engine.core.work import SLOWER_PRODUCTS, Work
from engine.errors import DTypeError, ShapeError
from engine.expression.language import Call, Expression, Function, Option


@dataclass(frozen=True, slots=True)
class Kind:
    """What is known of a tensor before there is one."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.elements * self.dtype.size


Operand: TypeAlias = "Kind | int | float"


# ---- what rules share


def _tensor(x: Operand) -> Kind:
    if not isinstance(x, Kind):
        raise TypeError(f"the operand {x!r} is a number; it must be a tensor")
    return x


def _agreed(a: Operand, b: Operand) -> Kind:
    """Two operands of one shape and dtype; a number takes those of the other."""
    if isinstance(a, Kind) and isinstance(b, Kind):
        return Kind(common_shape(a.shape, b.shape), promote(a.dtype, b.dtype))
    x, number = (a, b) if isinstance(a, Kind) else (b, a)
    if not isinstance(x, Kind) or isinstance(number, Kind):
        raise TypeError("both operands are numbers; one must be a tensor")
    return Kind(x.shape, scalar_dtype(x.dtype, number))


def _taken(op: str, x: Kind) -> Kind:
    """``x`` where the primitive takes its dtype."""
    accepted = OPS[op].dtypes
    if x.dtype not in accepted:
        raise DTypeError(f"{x.dtype} is not taken; it takes {', '.join(map(str, accepted))}")
    return x


def _in_float(x: Kind) -> Kind:
    return x if x.dtype.is_float else Kind(x.shape, float32)


def _counted(x: Kind) -> Kind:
    """Integers and bools are summed as int64."""
    return x if x.dtype.is_float else Kind(x.shape, int64)


def _ordered(x: Kind) -> Kind:
    """Bools are compared as int64."""
    return Kind(x.shape, int64) if x.dtype is bool_ else x


# ---- rules


def _unary(op: str) -> Callable[..., Kind]:
    return lambda x: _taken(op, _tensor(x))


def _float_unary(x: Operand) -> Kind:
    return _in_float(_tensor(x))


def _same(x: Operand, **options: Any) -> Kind:
    return _tensor(x)


def _binary(op: str) -> Callable[..., Kind]:
    return lambda a, b: _taken(op, _agreed(a, b))


def _float_binary(a: Operand, b: Operand) -> Kind:
    return _in_float(_agreed(a, b))


def _atan2(a: Operand, b: Operand) -> Kind:
    return _float_binary(_tensor(a), b)


def _power(x: Operand, exponent: Operand) -> Kind:
    """Whole powers of integers stay integers."""
    whole = isinstance(exponent, int) and exponent >= 0
    if isinstance(x, Kind) and whole and (exponent in (1, 2, 3) or not x.dtype.is_float):
        return _ordered(x)
    return _float_binary(x, exponent)


def _comparison(op: str) -> Callable[..., Kind]:
    return lambda a, b: Kind(_taken(op, _agreed(a, b)).shape, bool_)


def _predicate(x: Operand) -> Kind:
    return Kind(_tensor(x).shape, bool_)


def _where(condition: Operand, a: Operand, b: Operand) -> Kind:
    chosen = _tensor(condition)
    if chosen.dtype is not bool_:
        raise DTypeError(f"the condition is {chosen.dtype}; it must be bool: compare with something")
    if not isinstance(a, Kind) and not isinstance(b, Kind):
        a = Kind((), float32 if isinstance(a, float) else int64)
    both = _agreed(a, b)
    return Kind(common_shape(chosen.shape, both.shape), both.dtype)


def _clip(x: Operand, low: Operand, high: Operand) -> Kind:
    return _taken("lt", _agreed(_taken("lt", _agreed(_tensor(x), low)), high))


def _matmul(a: Operand, b: Operand) -> Kind:
    """NumPy's rule: vectors are rows at the left and columns at the right, leading axes broadcast."""
    one, other = _tensor(a), _tensor(b)
    left = (1, *one.shape) if len(one.shape) == 1 else one.shape
    right = (*other.shape, 1) if len(other.shape) == 1 else other.shape
    if not left or not right or left[-1] != right[-2]:
        raise ShapeError(
            f"cannot multiply {text(one.shape)} by {text(other.shape)}: the last axis of the first "
            "must equal the last but one of the second"
        )
    rows = left[-2:-1] if len(one.shape) > 1 else ()
    columns = right[-1:] if len(other.shape) > 1 else ()
    shape = common_shape(left[:-2], right[:-2]) + rows + columns
    return _taken("dot", Kind(shape, promote(one.dtype, other.dtype)))


def _transpose(x: Operand, axes: tuple[int, ...] | None) -> Kind:
    kind = _tensor(x)
    rank = len(kind.shape)
    if axes is None:
        order = (*range(rank - 2), rank - 1, rank - 2) if rank > 1 else tuple(range(rank))
    else:
        order = tuple([axis_of(axis, rank) for axis in axes])
    if sorted(order) != list(range(rank)):
        raise ShapeError(f"axes {axes} must name each of the {rank} axes of {text(kind.shape)} once")
    return Kind(tuple([kind.shape[axis] for axis in order]), kind.dtype)


def _reshape(x: Operand, shape: tuple[int, ...]) -> Kind:
    kind = _tensor(x)
    known = prod(size for size in shape if size != -1)
    filled = shape
    if -1 in shape:
        if shape.count(-1) > 1 or known == 0 or kind.elements % known:
            raise ShapeError(
                f"cannot give {text(kind.shape)} the shape {text(shape)}: -1 must stand for one whole size"
            )
        filled = tuple([kind.elements // known if size == -1 else size for size in shape])
    check_sizes(filled)
    if prod(filled) != kind.elements:
        raise ShapeError(
            f"cannot give {text(kind.shape)} the shape {text(filled)}: the number of elements must stay"
        )
    return Kind(filled, kind.dtype)


Axes: TypeAlias = "int | tuple[int, ...] | None"


def _reduced(x: Kind, axis: Axes, keepdims: bool, *, nonempty: bool = False) -> Kind:
    axes = axes_of(axis, len(x.shape))
    if nonempty and 0 in [x.shape[each] for each in axes]:
        raise ShapeError(f"of nothing it does not exist: {text(x.shape)} has no elements along axis {axis}")
    kept = [
        1 if place in axes else size for place, size in enumerate(x.shape) if keepdims or place not in axes
    ]
    return Kind(tuple(kept), x.dtype)


def _sum(x: Operand, axis: Axes, keepdims: bool) -> Kind:
    return _reduced(_counted(_tensor(x)), axis, keepdims)


def _mean(x: Operand, axis: Axes, keepdims: bool) -> Kind:
    return _reduced(_in_float(_tensor(x)), axis, keepdims)


def _extreme(x: Operand, axis: Axes, keepdims: bool) -> Kind:
    return _reduced(_ordered(_tensor(x)), axis, keepdims, nonempty=True)


def _truth(x: Operand, axis: Axes, keepdims: bool) -> Kind:
    return _reduced(Kind(_tensor(x).shape, bool_), axis, keepdims)


def _position(x: Operand, axis: int | None, keepdims: bool) -> Kind:
    return _reduced(Kind(_tensor(x).shape, int64), axis, keepdims, nonempty=True)


def _scan(x: Operand, axis: int | None) -> Kind:
    kind = _counted(_tensor(x))
    if axis is None:
        return Kind((kind.elements,), kind.dtype) if kind.shape else kind
    axis_of(axis, len(kind.shape))
    return kind


def _row(x: Operand, axis: int) -> Kind:
    kind = _in_float(_tensor(x))
    axis_of(axis, len(kind.shape))
    return kind


def _row_end(x: Operand, axis: int, keepdims: bool) -> Kind:
    return _reduced(_row(x, axis), axis, keepdims, nonempty=True)


def _norm(x: Operand, *vectors: Operand, eps: float) -> Kind:
    kind = _in_float(_tensor(x))
    if not kind.shape:
        raise ShapeError("a scalar has no rows; the input must have at least one axis")
    dtype = kind.dtype
    for each in map(_tensor, vectors):
        if each.shape != kind.shape[-1:]:
            raise ShapeError(
                f"weight and bias of an input of shape {text(kind.shape)} must have the shape "
                f"{text(kind.shape[-1:])} of its last axis, not {text(each.shape)}"
            )
        dtype = promote(dtype, each.dtype)
    return Kind(kind.shape, bfloat16 if kind.dtype is bfloat16 else dtype)


def _band(x: Operand, diagonal: int = 0) -> Kind:
    kind = _tensor(x)
    if len(kind.shape) < 2:
        raise ShapeError(f"a tensor of shape {text(kind.shape)} has no triangle; it needs two axes")
    return _ordered(kind)


def _masked(x: Operand) -> Kind:
    return _in_float(_band(x))


def _cast(dtype: DType) -> Callable[..., Kind]:
    return lambda x: Kind(_tensor(x).shape, dtype)


# ---- the table

_AXES = {"axis": Option(None, (int, tuple)), "keepdims": Option(False, (bool,))}
_PLACE = {"axis": Option(None, (int,)), "keepdims": Option(False, (bool,))}
_LAST = {"axis": Option(-1, (int,))}
_EPS = {"eps": Option(1e-5, (float,))}
_DIAGONAL = {"diagonal": Option(0, (int,))}

# names, least and most operands, rule, options; arithmetic an element, values that it computes on the way
_Row: TypeAlias = tuple[str, tuple[int, int], Callable[..., Any], Mapping[str, Option], int, int]

# fmt: off
_ROWS: tuple[_Row, ...] = (
    ("+", (2, 2), _binary("add"), {}, 1, 1),
    ("-", (2, 2), _binary("sub"), {}, 1, 1),
    ("*", (2, 2), _binary("mul"), {}, 1, 1),
    ("/", (2, 2), _float_binary, {}, 4, 1),
    ("//", (2, 2), _binary("floordiv"), {}, 8, 1),
    ("%", (2, 2), _binary("mod"), {}, 10, 1),
    ("**", (2, 2), _power, {}, 40, 2),
    ("@", (2, 2), _matmul, {}, 2, 3),
    ("-x", (1, 1), _unary("neg"), {}, 1, 1),
    ("~x", (1, 1), _unary("not"), {}, 1, 1),
    ("< <= > >=", (2, 2), _comparison("lt"), {}, 1, 1),
    ("== !=", (2, 2), _comparison("eq"), {}, 1, 2),
    ("& | ^", (2, 2), _binary("and"), {}, 1, 1),
    ("<< >>", (2, 2), _binary("shl"), {}, 1, 1),

    ("abs sign", (1, 1), _unary("abs"), {}, 2, 1),
    ("floor ceil rint", (1, 1), _same, {}, 2, 3),
    ("exp log log1p expm1 tanh", (1, 1), _float_unary, {}, 18, 1),
    ("sin cos erf sqrt", (1, 1), _float_unary, {}, 20, 1),
    ("relu", (1, 1), _unary("lt"), {}, 2, 2),
    ("sigmoid silu softplus logsigmoid", (1, 1), _float_unary, {}, 40, 9),
    ("gelu gelu_exact", (1, 1), _float_unary, {}, 32, 8),
    ("maximum minimum", (2, 2), _binary("max"), {}, 1, 1),
    ("atan2", (2, 2), _atan2, {}, 30, 1),
    ("where", (3, 3), _where, {}, 1, 3),
    ("clip", (3, 3), _clip, {}, 4, 4),
    ("isnan isfinite", (1, 1), _predicate, {}, 2, 2),

    ("sum prod", (1, 1), _sum, _AXES, 1, 1),
    ("mean", (1, 1), _mean, _AXES, 1, 1),
    ("max min", (1, 1), _extreme, _AXES, 1, 1),
    ("any all", (1, 1), _truth, _AXES, 2, 2),
    ("var std", (1, 1), _mean, _AXES, 4, 3),
    ("argmax argmin", (1, 1), _position, _PLACE, 1, 1),
    ("cumsum cumprod", (1, 1), _scan, {"axis": Option(None, (int,))}, 1, 1),

    ("softmax log_softmax", (1, 1), _row, _LAST, 24, 4),
    ("logsumexp", (1, 1), _row_end, {**_LAST, "keepdims": Option(False, (bool,))}, 22, 4),
    ("layer_norm", (1, 3), _norm, _EPS, 8, 6),
    ("rms_norm", (1, 2), _norm, _EPS, 5, 4),
    ("tril triu", (1, 1), _band, _DIAGONAL, 2, 4),
    ("causal_mask", (1, 1), _masked, {}, 2, 4),

    ("matmul", (2, 2), _matmul, {}, 2, 3),
    ("transpose", (1, 1), _transpose, {"axes": Option(None, (tuple,))}, 0, 0),
    ("reshape", (1, 1), _reshape, {"shape": Option((-1,), (tuple,))}, 0, 1),
    *((dtype.name, (1, 1), _cast(dtype), {}, 1, 1) for dtype in ALL),
)
# fmt: on

FUNCTIONS: dict[str, Function] = {}
_COSTS: dict[str, tuple[int, int]] = {}
for _names, _operands, _rule, _options, _flops, _values in _ROWS:
    for _name in _names.split():
        FUNCTIONS[_name] = Function(_operands, _rule, _options)
        _COSTS[_name] = (_flops, _values)


# ---- prices


def price(expression: Expression, kinds: list[Operand], gradients: bool) -> Work:
    """The work of an expression whose terms are of ``kinds``, as ``infer`` gives them.

    A gradient takes about twice the operations again, and keeps a cotangent beside each value.
    """
    flops = nbytes = 0
    for term, kind in zip(expression.terms, kinds, strict=True):
        if not isinstance(term, Call):
            nbytes += kind.nbytes if isinstance(kind, Kind) else 0
            continue
        operands = [own for place in term.operands if isinstance(own := kinds[place], Kind)]
        result = _tensor(kind)
        elements = max(own.elements for own in [*operands, result])
        an_element, values = _COSTS[term.function]
        if term.function in ("@", "matmul"):
            elements = result.elements * operands[0].shape[-1] * SLOWER_PRODUCTS.get(result.dtype, 1)
            nbytes += sum(own.nbytes for own in [*operands, result])
        else:
            nbytes += elements * max(own.dtype.size for own in [*operands, result]) * values
        flops += elements * an_element
    return Work(flops * 3, nbytes * 3) if gradients else Work(flops, nbytes)
