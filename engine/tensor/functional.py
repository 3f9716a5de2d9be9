"""Compositions that networks are made of, written so that no value and no gradient overflows on the way.

bfloat16 operands are computed in float32 and rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from math import pi, sqrt
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from engine.core.dtype import bfloat16, bool_, float32, int32, int64
from engine.core.shapes import text
from engine.errors import ShapeError
from engine.tensor import arithmetic as ops
from engine.tensor.cell import apply, compare, current_trace, detach, elementwise
from engine.tensor.movement import axis_of, flatten, reshape, shape_of, unsqueeze
from engine.tensor.promotion import cast, constant, spread
from engine.tensor.reductions import reduce

if TYPE_CHECKING:
    from engine.tensor.tensor import Tensor

P = ParamSpec("P")


def _in_float(function: Callable[Concatenate[Tensor, P], Tensor]) -> Callable[Concatenate[Tensor, P], Tensor]:
    """Integers enter as float32; bfloat16 enters as float32 and leaves as bfloat16."""

    def wrapped(x: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        if x.dtype is bfloat16:
            return cast(function(cast(x, float32), *args, **kwargs), bfloat16)
        return function(ops.to_float(x), *args, **kwargs)

    update_wrapper(wrapped, function)
    return wrapped


# ---- rows


def _row_max(x: Tensor, axis: int) -> Tensor:
    """The largest of each row, without a gradient: a shift that leaves the result as it was."""
    return reduce(detach(x), "max", axis, keepdims=True)


def _exp_shifted(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """exp(x - max) and its row sums."""
    shifted = ops.sub(x, _row_max(x, axis))
    e = elementwise("exp", shifted)
    return e, reduce(e, "sum", axis, keepdims=True)


@_in_float
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x) / Σ exp(x) along an axis; a row of -inf alone gives NaN."""
    if 0 in x.shape:
        return x
    e, total = _exp_shifted(x, axis)
    return ops.div(e, total)


@_in_float
def masked_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """softmax where -inf marks what is masked; a row that is masked throughout gives 0."""
    if 0 in x.shape:
        return x
    high = _row_max(x, axis)
    high = ops.where(ops.eq(high, float("-inf")), 0.0, high)
    e = elementwise("exp", ops.sub(x, high))
    total = reduce(e, "sum", axis, keepdims=True)
    return ops.div(e, ops.where(ops.eq(total, 0.0), 1.0, total))


@_in_float
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log(softmax(x)) without forming the quotient."""
    if 0 in x.shape:
        return x
    shifted = ops.sub(x, _row_max(x, axis))
    total = reduce(elementwise("exp", shifted), "sum", axis, keepdims=True)
    return ops.sub(shifted, elementwise("log", total))


@_in_float
def logsumexp(x: Tensor, axis: int = -1, keepdims: bool = False) -> Tensor:
    """log Σ exp(x) along an axis; of -inf alone it is -inf, with a +inf it is inf."""
    high = _row_max(x, axis)
    high = ops.where(ops.isfinite(high), high, 0.0)
    total = reduce(elementwise("exp", ops.sub(x, high)), "sum", axis, keepdims=True)
    result = ops.add(elementwise("log", total), high)
    return result if keepdims else reshape(result, _without(x, axis))


def _without(x: Tensor, axis: int) -> tuple[int, ...]:
    place = axis_of(axis, len(x.shape))
    return x.shape[:place] + x.shape[place + 1 :]


@_in_float
def layernorm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(x - mean) / √(variance + eps) · weight + bias over the last axis (Ba, Kiros and Hinton 2016)."""
    share = _share(x, weight, bias)
    centre = ops.mul(reduce(x, "sum", -1, keepdims=True), share)
    distance = ops.sub(x, centre)
    squares = reduce(elementwise("mul", distance, distance), "sum", -1, keepdims=True)
    return _scale_rows(distance, ops.mul(squares, share), weight, bias, eps)


@_in_float
def rmsnorm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """x / √(mean(x²) + eps) · weight over the last axis (Zhang and Sennrich 2019)."""
    share = _share(x, weight)
    squares = reduce(elementwise("mul", x, x), "sum", -1, keepdims=True)
    return _scale_rows(x, ops.mul(squares, share), weight, None, eps)


def _share(x: Tensor, *vectors: Tensor | None) -> float:
    """What one element weighs in the mean of its row. ShapeError unless ``vectors`` have a row's shape."""
    if not x.shape:
        raise ShapeError("a scalar has no rows; the input must have at least one axis")
    for vector in vectors:
        if vector is not None and vector.shape != x.shape[-1:]:
            raise ShapeError(
                f"weight and bias of an input of shape {text(x.shape)} must have the shape "
                f"{text(x.shape[-1:])} of its last axis, not {text(vector.shape)}"
            )
    return 1.0 / float(max(x.shape[-1], 1))


def _scale_rows(
    x: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    scale = ops.rdiv(elementwise("sqrt", ops.add(variance, eps)), 1.0)
    result = ops.mul(x, scale)
    if weight is not None:
        result = ops.mul(result, weight)
    return result if bias is None else ops.add(result, bias)


# ---- activations


@_in_float
def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), as exact for -100 as for 100."""
    small = elementwise("exp", elementwise("neg", elementwise("abs", x)))  # at most 1
    numerator = apply(
        "select", (compare("le", constant(0, x.dtype, x.shape), x), constant(1, x.dtype, x.shape), small)
    )
    return ops.div(numerator, ops.add(small, 1.0))


@_in_float
def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|))."""
    return ops.add(
        ops.relu(x), elementwise("log1p", elementwise("exp", elementwise("neg", elementwise("abs", x))))
    )


@_in_float
def logsigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)) = -softplus(-x)."""
    return elementwise("neg", softplus(elementwise("neg", x)))


@_in_float
def silu(x: Tensor) -> Tensor:
    """x · sigmoid(x)."""
    return ops.mul(x, sigmoid(x))


@_in_float
def gelu(x: Tensor) -> Tensor:
    """½x (1 + tanh(√(2/π) (x + 0.044715 x³))) (Hendrycks and Gimpel 2016)."""
    slope = sqrt(2.0 / pi)
    square = elementwise("mul", x, x)
    inner = ops.mul(x, ops.add(ops.mul(square, slope * 0.044715), slope))
    return elementwise("mul", ops.mul(x, 0.5), ops.add(elementwise("tanh", inner), 1.0))


@_in_float
def gelu_exact(x: Tensor) -> Tensor:
    """½x (1 + erf(x / √2))."""
    return elementwise("mul", ops.mul(x, 0.5), ops.add(elementwise("erf", ops.mul(x, sqrt(0.5))), 1.0))


# ---- triangles and masks


def _band(rows: int, columns: int, diagonal: int) -> Tensor:
    """bool (rows, columns): whether column - row ≤ diagonal."""
    row = apply("iota", (), (rows, columns), 0, int64)
    column = apply("iota", (), (rows, columns), 1, int64)
    return ops.le(column, ops.add(row, diagonal))


def _matrix_band(x: Tensor, diagonal: int) -> Tensor:
    if len(x.shape) < 2:
        raise ShapeError(f"a tensor of shape {text(x.shape)} has no triangle; it needs two axes")
    return _band(x.shape[-2], x.shape[-1], diagonal)


def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the last two axes, zero above it."""
    return ops.where(_matrix_band(x, diagonal), x, 0)


def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the last two axes, zero below it."""
    return ops.where(_matrix_band(x, diagonal - 1), 0, x)


def causal_mask(x: Tensor) -> Tensor:
    """Scores (…, query, key) with -inf where the key comes after the query."""
    return ops.where(_matrix_band(x, 0), x, float("-inf"))


# ---- losses


def pick(x: Tensor, index: Tensor) -> Tensor:
    """(N, C) and int (N,) give x[n, index[n]]. Raises IndexError naming an index outside 0 … C-1.

    The sum of a row without all others: plans compute it, and its gradient, together with what else runs
    along the row. Looking the index up in the classes is what refuses a bad one in a plan.
    """
    require_classes(index, x.shape[1])
    classes = apply("iota", (), (x.shape[1],), 0, int64 if x.dtype.size == 8 else int32)
    own = apply("gather", (classes, cast(index, int64)), "checked")
    return reduce(ops.where(ops.eq(classes, unsqueeze(own, 1)), x, 0.0), "sum", (1,), False)


def require_classes(index: Tensor, count: int) -> None:
    """Raises IndexError for the first element of ``index`` outside 0 … count-1.

    Nothing is known of it while a function is traced; there the reader of the index refuses it at each run.
    """
    if 0 in index.shape or current_trace.get() is not None:
        return
    wrong = elementwise("or", ops.lt(index, 0), ops.ge(index, count))
    if reduce(wrong, "any", None, False)._value.tolist():
        at = flatten(wrong)._value.tolist().index(True)
        value = flatten(index)._value.tolist()[at]
        raise IndexError(f"target {value} at position {at} is not a class; classes go from 0 to {count - 1}")


def one_hot(index: Tensor, count: int) -> Tensor:
    """float32 (…, count): 1 at the index, 0 elsewhere."""
    shape = shape_of((*index.shape, count))
    require_classes(index, count)
    classes = apply("iota", (), shape, len(index.shape), int64)
    return cast(ops.eq(classes, spread(unsqueeze(cast(index, int64), -1), shape)), float32)


def dropout(x: Tensor, rate: float, uniform: Tensor) -> Tensor:
    """x with elements zeroed where ``uniform`` < rate, and the rest scaled by 1 / (1 - rate)."""
    kept = ops.ge(uniform, rate)
    assert kept.dtype is bool_
    return ops.where(kept, ops.mul(x, 1.0 / (1.0 - rate)), 0.0)
