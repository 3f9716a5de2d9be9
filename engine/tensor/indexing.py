"""NumPy's indexing: ints, slices, None, Ellipsis and integer tensors. A result is a value, never an alias."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from engine.core.dtype import INTS, bool_, int64
from engine.core.shapes import common_shape, text
from engine.errors import DTypeError
from engine.tensor import arithmetic
from engine.tensor.cell import Cell, Shape, apply
from engine.tensor.movement import flatten, permute, reshape
from engine.tensor.promotion import as_tensor, cast, number, spread

if TYPE_CHECKING:
    from engine.tensor.tensor import Tensor


@dataclass(slots=True)
class _Basic:
    """The part of an index that a strided view can answer.

    ``shape`` is the view's shape with ints removed and None inserted; ``tensors`` are integer tensors by the
    axis of that shape which they index.
    """

    starts: list[int]
    sizes: list[int]
    steps: list[int]
    shape: list[int]
    tensors: dict[int, Tensor]


def get(x: Tensor, index: Any) -> Tensor:
    """``x[index]``. Raises IndexError for a position outside its axis or too many indices."""
    plan = _parse(x, index if isinstance(index, tuple) else (index,))
    view = apply("slice", (x,), tuple(plan.starts), tuple(plan.sizes), tuple(plan.steps))
    view = reshape(view, plan.shape)
    return _gather(view, plan.tensors) if plan.tensors else view


def put(x: Tensor, index: Any, value: Any) -> Tensor:
    """x with ``value`` at ``x[index]``; of several values for one element the last wins."""
    count = prod(x.shape)
    places = get(reshape(apply("iota", (), (count,), 0, int64), x.shape), index)
    values = spread(cast(as_tensor(value), x.dtype), places.shape)
    flat = (flatten(x), flatten(places), flatten(values))
    return reshape(apply("scatter", flat, "set", "checked"), x.shape) if prod(places.shape) else x


def _parse(x: Tensor, index: tuple[Any, ...]) -> _Basic:
    rank = len(x.shape)
    used = sum(1 for item in index if item is not None and item is not Ellipsis)
    if used > rank:
        raise IndexError(f"{used} indices for a tensor of shape {text(x.shape)}, which has {rank} axes")
    dots = [i for i, item in enumerate(index) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index may hold only one Ellipsis")
    at = dots[0] if dots else len(index)
    full = (*index[:at], *[slice(None)] * (rank - used), *index[at + 1 :])
    plan = _Basic([], [], [], [], {})
    mixed = any(isinstance(item, Cell | list) for item in full)
    for item in full:  # beside a tensor an int counts as one too: that decides where result axes go
        _take(plan, x.shape, Cell.result(item) if mixed and _is_int(item) else item)
    return plan


def _is_int(item: Any) -> bool:
    return isinstance(item, int) and not isinstance(item, bool)


def _take(plan: _Basic, shape: Shape, item: Any) -> None:
    """Adds one entry of the index, which addresses the next axis (None addresses none)."""
    if item is None:
        plan.shape.append(1)
        return
    axis = len(plan.sizes)
    length = shape[axis]
    start, size, step = 0, length, 1
    if isinstance(item, slice):
        if item != slice(None):  # whose size need not be known
            start, stop, step = item.indices(length)
            size = len(range(start, stop, step))
            start = start if size else 0
    elif isinstance(item, bool):
        raise IndexError("a bool is not an index; use 0 or 1")
    elif isinstance(item, Cell | list):
        plan.tensors[len(plan.shape)] = _positions(item, length)
    else:
        start, size = _position(item, length, axis, shape), 1
    plan.starts.append(start)
    plan.sizes.append(size)
    plan.steps.append(step)
    if not hasattr(item, "__index__") or isinstance(item, Cell):
        plan.shape.append(size)


def _position(item: Any, length: int, axis: int, shape: Shape) -> int:
    try:
        position = item.__index__()
    except (AttributeError, TypeError):
        raise IndexError(
            f"{item!r} is not an index; use ints, slices, None, Ellipsis or integer tensors"
        ) from None
    if not -length <= position < length:
        raise IndexError(
            f"index {position} is out of range for axis {axis} of {text(shape)}, which has size {length}"
        )
    return int(position) % length


def _positions(item: Any, length: int) -> Tensor:
    """Integer positions with negative ones counted from the end."""
    tensor = as_tensor(item)
    if prod(tensor.shape) == 0:
        tensor = cast(tensor, int64)
    if tensor.dtype is bool_:
        raise DTypeError(
            "a bool tensor is not an index, since the shape of the result would depend on its values; "
            "use where(mask, x, other) or x.masked_fill(mask, value)"
        )
    if tensor.dtype not in INTS:
        raise DTypeError(f"an index tensor holds integers; this one is {tensor.dtype}")
    tensor = cast(tensor, int64)
    return arithmetic.where(arithmetic.lt(tensor, 0), arithmetic.add(tensor, number(length)), tensor)


def _gather(x: Tensor, tensors: dict[int, Tensor]) -> Tensor:
    """Elements of x at the broadcast of ``tensors``; their axes go where the indexed ones stood if those are
    adjacent, else to the front."""
    axes = list(tensors)
    source: Shape = ()
    for tensor in tensors.values():
        source = common_shape(source, tensor.shape)
    rest = [axis for axis in range(len(x.shape)) if axis not in tensors]
    moved = permute(x, axes + rest)
    result = apply("gather", (moved, *[spread(tensor, source) for tensor in tensors.values()]), "checked")
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return result
    before, depth = axes[0], len(source)
    order = [*range(depth, depth + before), *range(depth), *range(depth + before, len(result.shape))]
    return permute(result, order)
