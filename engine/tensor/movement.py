"""Operations that rearrange a Tensor without computing: mostly views of the same memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

from engine.core.dim import Poly
from engine.core.dtype import promote
from engine.core.shapes import axes_of as axes_of
from engine.core.shapes import axis_of as axis_of
from engine.core.shapes import check_sizes, common_shape, text
from engine.errors import ShapeError
from engine.tensor.cell import Shape, apply
from engine.tensor.promotion import cast, constant, spread

if TYPE_CHECKING:
    from engine.tensor.tensor import Tensor


_PLAIN = frozenset({int})


def sizes_of(arguments: Sequence[int | Sequence[int]]) -> tuple[int, ...]:
    """``f(2, 3)`` and ``f((2, 3))`` alike. Raises ShapeError for what is not an integer."""
    single = len(arguments) == 1 and hasattr(arguments[0], "__iter__")
    given: Any = arguments[0] if single else arguments
    try:
        sizes = tuple(given)
        return sizes if _PLAIN.issuperset(map(type, sizes)) else tuple(map(_integer, sizes))
    except TypeError:
        raise ShapeError(f"{given!r} is not a shape; its entries must be integers") from None


def _integer(size: Any) -> Any:
    if isinstance(size, Poly):
        return size
    if isinstance(size, bool):
        raise TypeError("a bool is not a size")
    return index(size)


def shape_of(arguments: Sequence[int | Sequence[int]]) -> Shape:
    """``sizes_of`` where no size may be negative."""
    sizes = sizes_of(arguments)
    check_sizes(sizes)
    return sizes


def reshape(x: Tensor, *shape: int | Sequence[int]) -> Tensor:
    """The same elements in row-major order under another shape; one size may be -1."""
    sizes = sizes_of(shape)
    if -1 in sizes:
        known = prod(size for size in sizes if size != -1)
        total = prod(x.shape)
        if sizes.count(-1) > 1 or known == 0 or total % known:
            raise ShapeError(
                f"cannot give {text(x.shape)} the shape {sizes}: -1 must stand for one whole size"
            )
        sizes = tuple([total // known if size == -1 else size for size in sizes])
    return x if sizes == x.shape else apply("reshape", (x,), sizes)


def flatten(x: Tensor) -> Tensor:
    """All elements on one axis."""
    return reshape(x, prod(x.shape))


def transpose(x: Tensor, *axes: int) -> Tensor:
    """Exchanges the last two axes, or the two named; ``permute`` takes an order of all."""
    rank = len(x.shape)
    if rank < 2 and not axes:
        return x
    first, second = axes or (-2, -1)
    order = list(range(rank))
    first, second = axis_of(first, rank), axis_of(second, rank)
    order[first], order[second] = second, first
    return apply("transpose", (x,), tuple(order))


def permute(x: Tensor, *axes: int | Sequence[int]) -> Tensor:
    """Axis i of the result is axis ``axes[i]`` of x."""
    order = tuple([axis_of(axis, len(x.shape)) for axis in sizes_of(axes)])
    return apply("transpose", (x,), order)


def broadcast_to(x: Tensor, *shape: int | Sequence[int]) -> Tensor:
    """x repeated along new axes at the left and along axes of size 1."""
    return spread(x, shape_of(shape))


def unsqueeze(x: Tensor, axis: int) -> Tensor:
    """A new axis of size 1 at ``axis``."""
    place = axis_of(axis, len(x.shape) + 1)
    return reshape(x, (*x.shape[:place], 1, *x.shape[place:]))


def squeeze(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """x without axes of size 1: all of them, or those named. Raises ShapeError if a named one is longer."""
    axes = axes_of(axis, len(x.shape)) if axis is not None else ()
    for one in axes:
        if x.shape[one] != 1:
            raise ShapeError(
                f"axis {one} of {text(x.shape)} has size {x.shape[one]}; only size 1 can be removed"
            )
    kept = [n for i, n in enumerate(x.shape) if (i not in axes if axis is not None else n != 1)]
    return reshape(x, kept)


def flip(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """The order along the named axes reversed; of all axes for None."""
    axes = axes_of(axis, len(x.shape))
    starts = tuple([n - 1 if i in axes and n else 0 for i, n in enumerate(x.shape)])
    steps = tuple([-1 if i in axes else 1 for i in range(len(x.shape))])
    return apply("slice", (x,), starts, x.shape, steps)


def take(x: Tensor, axis: int, start: int, size: int) -> Tensor:
    """``size`` elements of one axis from ``start``, all of the others."""
    starts, sizes = [0] * len(x.shape), list(x.shape)
    starts[axis], sizes[axis] = start, size
    return apply("slice", (x,), tuple(starts), tuple(sizes), (1,) * len(x.shape))


def split(x: Tensor, size: int, axis: int = 0) -> list[Tensor]:
    """Pieces of ``size`` along an axis; the last may be shorter."""
    if size < 1:
        raise ValueError(f"size is {size}; pieces have at least one element")
    axis = axis_of(axis, len(x.shape))
    length = x.shape[axis]
    return [take(x, axis, start, min(size, length - start)) for start in range(0, length, size)]


def cat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors joined along an axis; on all others their sizes are equal."""
    if not tensors:
        raise ValueError("nothing to join: give at least one tensor")
    dtype = reduce(promote, [x.dtype for x in tensors])
    return apply("concat", tuple([cast(x, dtype) for x in tensors]), axis_of(axis, len(tensors[0].shape)))


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    if not tensors:
        raise ValueError("nothing to join: give at least one tensor")
    shape = tensors[0].shape
    for x in tensors:
        if x.shape != shape:
            raise ShapeError(
                f"shapes {text(shape)} and {text(x.shape)} differ; stacked tensors have one shape"
            )
    return cat([unsqueeze(x, axis) for x in tensors], axis_of(axis, len(shape) + 1))


def pad(x: Tensor, widths: Sequence[tuple[int, int]], value: float = 0) -> Tensor:
    """``widths`` holds (before, after) for each axis; negative widths cut."""
    rank = len(x.shape)
    if len(widths) != rank:
        raise ValueError(f"widths has {len(widths)} pairs; a tensor of shape {text(x.shape)} needs {rank}")
    for axis, (before, after) in enumerate(widths):
        cut_before, cut_after = max(-before, 0), max(-after, 0)
        if cut_before or cut_after:
            x = take(x, axis, cut_before, max(x.shape[axis] - cut_before - cut_after, 0))
    low = tuple([max(before, 0) for before, _ in widths])
    high = tuple([max(after, 0) for _, after in widths])
    if not any(low) and not any(high):
        return x
    return apply("pad", (x, constant(value, x.dtype)), low, high)


def repeat(x: Tensor, *counts: int | Sequence[int]) -> Tensor:
    """The whole of x laid side by side ``counts[i]`` times along axis i (NumPy's tile)."""
    times = shape_of(counts)
    rank = max(len(times), len(x.shape))
    times = (1,) * (rank - len(times)) + times
    shape = (1,) * (rank - len(x.shape)) + x.shape
    spread_shape: Shape = tuple([size for pair in zip(times, shape, strict=True) for size in pair])
    single: Shape = tuple([size for one in shape for size in (1, one)])
    full = spread(reshape(x, single), spread_shape)
    return reshape(full, tuple([n * size for n, size in zip(times, shape, strict=True)]))


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """NumPy's ``@``: vectors are rows at the left and columns at the right, leading axes broadcast."""
    left = unsqueeze(a, 0) if len(a.shape) == 1 else a
    right = unsqueeze(b, 1) if len(b.shape) == 1 else b
    if not a.shape or not b.shape or left.shape[-1] != right.shape[-2]:
        raise ShapeError(
            f"cannot multiply {text(a.shape)} by {text(b.shape)}: the last axis of the first "
            "must equal the last but one of the second"
        )
    dtype = promote(a.dtype, b.dtype)
    left, right = cast(left, dtype), cast(right, dtype)
    if len(right.shape) == 2 and len(left.shape) > 2:
        rows = apply("reshape", (left,), (prod(left.shape[:-1]), left.shape[-1]))
        result = reshape(apply("dot", (rows, right)), (*left.shape[:-1], right.shape[-1]))
    else:
        batch = common_shape(left.shape[:-2], right.shape[:-2])
        result = apply(
            "dot", (spread(left, batch + left.shape[-2:]), spread(right, batch + right.shape[-2:]))
        )
    if len(a.shape) == 1:
        result = squeeze(result, -2)
    return squeeze(result, -1) if len(b.shape) == 1 else result


def dot(a: Tensor, b: Tensor) -> Tensor:
    """The same as ``a @ b``."""
    return matmul(a, b)
