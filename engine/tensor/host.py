"""Python data turned into arrays: numbers, nested sequences, and objects that export a buffer."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from math import copysign
from typing import Any

from engine.core import build
from engine.core.dtype import BY_NAME, DType, bfloat16, bool_, float32, int64
from engine.core.dtypes import require
from engine.core.node import Node
from engine.devices.array import Array, view
from engine.errors import DTypeError

Scalar = bool | int | float

_BUFFER_FORMATS = {"f": "float32", "d": "float64", "i": "int32", "I": "uint32", "q": "int64", "?": "bool"}
_BUFFER_FORMATS |= {"l": "int64"} if array("l").itemsize == 8 else {"l": "int32"}


def array_of(data: Any, dtype: DType | None = None) -> Array:
    """The array that ``data`` spells; always a copy.

    Floats become float32, ints int64, bools bool, unless ``dtype`` says otherwise. Raises ValueError for
    ragged data and for integers that ``dtype`` cannot hold, DTypeError for what is not a number or no dtype.
    """
    if dtype is not None:
        require(dtype)
    if isinstance(data, list | tuple | range | int | float):
        flat, shape = flatten(data)
        dtype = dtype or _dtype_of(flat)
        return Array.from_bytes(_pack(flat, dtype), shape, dtype)
    try:
        exported = memoryview(data)
    except TypeError:
        raise DTypeError(
            f"cannot make a tensor of {type(data).__name__}; give numbers or nested lists "
            "(list() makes one of an iterator)"
        ) from None
    if exported.format not in _BUFFER_FORMATS:
        raise DTypeError(
            f"cannot read a buffer of format {exported.format!r}; cast it to {', '.join(BY_NAME)}"
        )
    return Array.from_bytes(
        exported.tobytes(), tuple(exported.shape or ()), BY_NAME[_BUFFER_FORMATS[exported.format]]
    )


def flatten(data: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The items of nested lists in row-major order, and their shape.

    Raises ValueError if rows differ in length, or for a list that holds itself.
    """
    seen: set[int] = set()
    level: Sequence[Any] = [data]
    shape: list[int] = []
    while level and isinstance(level[0], list | tuple | range):
        size = len(level[0])
        for position, row in enumerate(level):
            if not isinstance(row, list | tuple | range) or len(row) != size:
                what = f"{len(row)} items" if isinstance(row, list | tuple | range) else repr(row)
                raise ValueError(
                    f"ragged data: row 0 on axis {len(shape)} has {size} items, row {position} has {what}; "
                    "all rows of an axis must have the same length"
                )
        if id(level[0]) in seen:
            raise ValueError(f"the list on axis {len(shape)} holds itself; data must end in numbers")
        seen.add(id(level[0]))
        shape.append(size)
        level = [item for row in level for item in row]
    for item in level:
        if isinstance(item, list | tuple | range):
            raise ValueError(f"ragged data: {item!r} stands beside numbers on axis {len(shape)}")
    return list(level), tuple(shape)


def _dtype_of(flat: Sequence[Any]) -> DType:
    kinds = {type(item) for item in flat}
    if any(hasattr(kind, "requires_grad") for kind in kinds):
        raise DTypeError("the data holds tensors; join them with stack or cat, which keep their history")
    if kinds == {bool}:
        return bool_
    return int64 if kinds and all(hasattr(kind, "__index__") for kind in kinds) else float32


def _pack(flat: Sequence[Any], dtype: DType) -> bytes:
    try:
        if dtype is bfloat16:
            return b"".join(map(dtype.encode, flat))
        if dtype is bool_:
            return bytes(map(bool, flat))
        if dtype.is_int:
            return array(_INT_CODES[dtype.size, dtype.struct.isupper()], map(int, flat)).tobytes()
        return array(dtype.struct, flat).tobytes()
    except OverflowError:
        raise ValueError(f"the data holds an integer outside the range of {dtype}") from None
    except TypeError as error:
        raise DTypeError(f"the data holds what is not a number: {error}") from None


_INT_CODES = {(4, False): "i", (4, True): "I", (8, False): "q"}


def scalar_node(value: Scalar, dtype: DType, shape: tuple[int, ...]) -> Node:
    """A constant node of ``shape`` that holds its value; equal ones are shared."""
    return _scalar_node(value, value == 0 and copysign(1.0, value) < 0, dtype, shape)


@lru_cache(maxsize=4096, typed=True)
def _scalar_node(value: Scalar, negative_zero: bool, dtype: DType, shape: tuple[int, ...]) -> Node:
    node = build.constant(value, require(dtype))
    node.value = Array.from_bytes(node.attrs[0], (), dtype)
    if shape:
        node = build.broadcast(node, shape)
        node.value = view("broadcast", (shape,), node.inputs[0].value)
    return node
