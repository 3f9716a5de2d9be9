"""Operands brought to one dtype and one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.core.dtype import DType, bool_, float32, int32, int64, promote, uint32
from engine.core.shapes import text
from engine.errors import ShapeError
from engine.tensor.cell import Cell, Shape, apply, wrap
from engine.tensor.host import Scalar, array_of, scalar_node

if TYPE_CHECKING:
    from engine.tensor.tensor import Tensor

_INT_RANGES = {
    int32: range(-(2**31), 2**31),
    int64: range(-(2**63), 2**63),
    uint32: range(2**32),
}


def as_tensor(data: Any) -> Tensor:
    """``data`` itself if it is a Tensor, else a new one."""
    return data if isinstance(data, Cell.result) else wrap(array_of(data))


def agree(a: Tensor, b: Any) -> tuple[Tensor, Tensor]:
    """Both operands of a binary operation with one dtype and shape; ``b`` may be a number or nested lists.

    Raises ShapeError where the shapes do not broadcast.
    """
    if not isinstance(b, Cell):
        if isinstance(b, bool | int | float):
            return agree_scalar(a, b)
        b = as_tensor(b)
    if a.dtype is not b.dtype:
        dtype = promote(a.dtype, b.dtype)
        a, b = cast(a, dtype), cast(b, dtype)
    if a.shape != b.shape:
        shape = common_shape(a.shape, b.shape)
        a, b = spread(a, shape), spread(b, shape)
    return a, b


def agree_scalar(a: Tensor, value: Scalar) -> tuple[Tensor, Tensor]:
    """A Python number is weak: it takes the tensor's dtype unless its own kind is the wider one."""
    dtype = scalar_dtype(a.dtype, value)
    return cast(a, dtype), constant(value, dtype, a.shape)


def scalar_dtype(dtype: DType, value: Scalar) -> DType:
    if isinstance(value, float):
        return dtype if dtype.is_float else float32
    if isinstance(value, bool):
        return dtype
    if dtype.is_int and value not in _INT_RANGES[dtype]:
        raise ValueError(f"{value} is outside the range of {dtype}; cast the tensor first")
    return int64 if dtype is bool_ else dtype


def constant(value: Scalar, dtype: DType, shape: Shape = ()) -> Tensor:
    """A tensor that holds ``value`` everywhere, without memory of its own for each element."""
    node = scalar_node(value, dtype, shape)
    return wrap(node.value, node)


def number(size: int) -> int | Tensor:
    """A size as an operand; one that is not known yet is counted."""
    return size if isinstance(size, int) else apply("reduce", (constant(1, int64, (size,)),), "sum", (0,))


def cast(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype is dtype else apply("cast", (x,), dtype)


def spread(x: Tensor, shape: Shape) -> Tensor:
    return x if x.shape == shape else apply("broadcast", (x,), shape)


def common_shape(a: Shape, b: Shape) -> Shape:
    """NumPy's rule: axes are aligned at the right, and a size of 1 takes the other's."""
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    sizes = []
    for one, other in zip(left, right, strict=True):
        if one not in (1, other) and other != 1:
            raise ShapeError(
                f"shapes {text(a)} and {text(b)} do not broadcast: sizes {one} and {other} differ "
                "and neither is 1 (axes are aligned at the right)"
            )
        sizes.append(other if one == 1 else one)
    return tuple(sizes)
