"""Reductions and running sums along axes. ``axis`` is an int, several, or None for all."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod as product
from typing import TYPE_CHECKING

from engine.core.dtype import bfloat16, bool_, float32, int64
from engine.core.shapes import text
from engine.errors import ShapeError
from engine.tensor import arithmetic
from engine.tensor.cell import apply
from engine.tensor.movement import axes_of, axis_of, reshape
from engine.tensor.promotion import cast, number

if TYPE_CHECKING:
    from engine.tensor.tensor import Tensor

Axes = int | Sequence[int] | None


def reduce(x: Tensor, kind: str, axis: Axes, keepdims: bool) -> Tensor:
    axes = axes_of(axis, len(x.shape))
    result = apply("reduce", (x,), kind, axes) if axes else x
    if not keepdims:
        return result
    return reshape(result, tuple([1 if i in axes else n for i, n in enumerate(x.shape)]))


def _accumulated(x: Tensor) -> Tensor:
    """Integers and bools are summed and multiplied as int64."""
    return x if x.dtype.is_float else cast(x, int64)


def sum_(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum; 0 of nothing. Integers and bools give int64."""
    return reduce(_accumulated(x), "sum", axis, keepdims)


def prod(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The product; 1 of nothing. Integers and bools give int64."""
    return reduce(_accumulated(x), "prod", axis, keepdims)


def _numbers(x: Tensor) -> Tensor:
    return cast(x, int64) if x.dtype is bool_ else x


def max_(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest; NaN if any is. Ties share the gradient equally. Raises ShapeError for nothing."""
    _require_elements(x, axis, "max")
    return reduce(_numbers(x), "max", axis, keepdims)


def min_(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest; NaN if any is. Ties share the gradient equally. Raises ShapeError for nothing."""
    _require_elements(x, axis, "min")
    return reduce(_numbers(x), "min", axis, keepdims)


def _truth(x: Tensor) -> Tensor:
    return x if x.dtype is bool_ else arithmetic.ne(x, 0)


def any_(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether any is non-zero; False of nothing."""
    return reduce(_truth(x), "any", axis, keepdims)


def all_(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether all are non-zero; True of nothing."""
    return reduce(_truth(x), "all", axis, keepdims)


def _count(x: Tensor, axis: Axes) -> int:
    return product(x.shape[i] for i in axes_of(axis, len(x.shape)))


def mean(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean; NaN of nothing. Integers give float32."""
    total = sum_(arithmetic.to_float(x), axis, keepdims)
    count = _count(x, axis)
    if isinstance(count, int) and _is_power_of_two(count):
        return arithmetic.mul(total, 1.0 / count)
    return arithmetic.div(total, number(count))


def _is_power_of_two(count: int) -> bool:
    return count > 0 and count & (count - 1) == 0


def var(x: Tensor, axis: Axes = None, keepdims: bool = False, correction: int = 0) -> Tensor:
    """The mean squared distance from the mean; ``correction=1`` divides by one less than the count."""
    x = arithmetic.to_float(x)
    if x.dtype is bfloat16:
        return cast(var(cast(x, float32), axis, keepdims, correction), bfloat16)
    distance = arithmetic.sub(x, mean(x, axis, keepdims=True))
    squares = sum_(arithmetic.mul(distance, distance), axis, keepdims)
    return arithmetic.div(squares, number(_count(x, axis) - correction))


def std(x: Tensor, axis: Axes = None, keepdims: bool = False, correction: int = 0) -> Tensor:
    """The square root of ``var``; its gradient is 0 where all elements are equal."""
    square = var(x, axis, keepdims, correction)
    flat = square == 0
    return arithmetic.where(flat, 0.0, arithmetic.sqrt(arithmetic.where(flat, 1.0, square)))


def _position(x: Tensor, kind: str, axis: int | None, keepdims: bool) -> Tensor:
    _require_elements(x, axis, f"arg{kind}")
    x = _numbers(x)
    if axis is None or not x.shape:
        result = apply("argreduce", (reshape(x, product(x.shape)),), kind, 0)
        return reshape(result, (1,) * len(x.shape)) if keepdims else result
    place = axis_of(axis, len(x.shape))
    result = apply("argreduce", (x,), kind, place)
    return reshape(result, (*x.shape[:place], 1, *x.shape[place + 1 :])) if keepdims else result


def argmax(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The first position of the largest (NaN counts as largest); of the flattened tensor for None."""
    return _position(x, "max", axis, keepdims)


def argmin(x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The first position of the smallest (NaN counts as smallest); of the flattened tensor for None."""
    return _position(x, "min", axis, keepdims)


def _require_elements(x: Tensor, axis: Axes, what: str) -> None:
    if _count(x, axis) == 0:
        raise ShapeError(
            f"{what} of nothing does not exist: shape {text(x.shape)} has no elements along axis {axis}"
        )


def _scan(x: Tensor, kind: str, axis: int | None) -> Tensor:
    if axis is None or not x.shape:
        flat = reshape(x, product(x.shape))
        result = apply("scan", (flat,), kind, 0, False)
        return result if x.shape else reshape(result, ())
    return apply("scan", (x,), kind, axis_of(axis, len(x.shape)), False)


def cumsum(x: Tensor, axis: int | None = None) -> Tensor:
    """Running sums along an axis, of the flattened tensor for None."""
    return _scan(_accumulated(x), "sum", axis)


def cumprod(x: Tensor, axis: int | None = None) -> Tensor:
    """Running products along an axis, of the flattened tensor for None."""
    return _scan(_accumulated(x), "prod", axis)
