"""The reference device: a method for each kind of primitive."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from math import prod
from typing import Any

from engine.core.dtype import DType, bfloat16
from engine.core.opdef import OPS
from engine.devices.array import Array, contiguous_strides, strided_offsets, view
from engine.devices.reference import scalar
from engine.devices.reference.index import positions
from engine.devices.reference.random import random_words
from engine.devices.reference.reductions import argreduce_row, reduce_row, row_times_matrix, scan_row
from engine.devices.reference.rounding import rounder
from engine.devices.regions import run_region
from engine.errors import DeviceError

Shape = tuple[int, ...]
Attrs = tuple[Any, ...]


class ReferenceDevice:
    """Computes in Python numbers, in exactly the order that the graph defines.

    Not exact: exp, log, tanh and their like come from Python's math in float64, rounded to the dtype, so
    their last bit may differ from that of the compiled functions. Everything else has the same bits.
    """

    name = "reference"
    exact = False

    def run(
        self, op: str, attrs: Attrs, inputs: Sequence[Array], shape: tuple[int, ...], dtype: DType
    ) -> Array:
        """The value of one primitive. Raises BoundsError for a checked index out of range."""
        moved = view(op, attrs, inputs[0]) if inputs else None
        if moved is not None:
            return moved
        if OPS[op].kind == "elementwise" and op != "bitcast":
            return _elementwise(op, inputs, shape, dtype)
        compute = _COMPUTE.get(op)
        if compute is None:
            raise DeviceError(f"the reference device does not compute {op!r}")
        return compute(attrs, inputs, shape, dtype)

    def run_region(self, op: str, attrs: Attrs, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The results of a loop or a condition."""
        return run_region(self, op, attrs, inputs)


def numbers(x: Array) -> list[Any]:
    """The elements in row-major order as Python numbers."""
    items = x.flat()
    if x.dtype is bfloat16:
        return memoryview(array("I", [bits << 16 for bits in items])).cast("B").cast("f").tolist()
    return items


def _stored(items: Iterable[Any], shape: Shape, dtype: DType) -> Array:
    """An array of items as they are stored, which need no rounding."""
    raw = bytes(items) if dtype.kind == "bool" else array(dtype.struct, items).tobytes()
    return Array.from_bytes(raw, shape, dtype)


def _elementwise(op: str, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    old = inputs[-1].dtype
    function = scalar.cast(old, dtype) if op == "cast" else scalar.function(op, old)
    return Array.from_list(list(map(function, *[numbers(x) for x in inputs])), shape, dtype)


# ---- leaves and movement


def _constant(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    return Array.from_bytes(attrs[0], shape, dtype)


def _iota(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    inner = prod(shape[attrs[1] + 1 :])
    outer = prod(shape[: attrs[1]])
    row = chain.from_iterable(repeat(i, inner) for i in range(shape[attrs[1]]))
    return Array.from_list(list(row) * outer, shape, dtype)


def _random_bits(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    key = inputs[0].flat()
    ordinal, turn = [x.flat()[0] for x in inputs[1:]]
    return _stored(random_words((key[0], key[1]), ordinal, turn, prod(shape)), shape, dtype)


def _bitcast(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    x = inputs[0]
    # encoded anew, so that every NaN becomes the one NaN
    raw = b"".join(map(x.dtype.encode, numbers(x))) if x.dtype.is_float else x.tobytes()
    return Array.from_bytes(raw, shape, dtype)


def _reshape(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    return _stored(inputs[0].flat(), shape, dtype)


def _pad(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    x, fill = inputs
    return _placed([(x, attrs[0])], [fill.flat()[0]] * prod(shape), shape, dtype)


def _concat(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    axis = attrs[0]
    parts = []
    start = 0
    for x in inputs:
        parts.append((x, tuple([start if a == axis else 0 for a in range(len(shape))])))
        start += x.shape[axis]
    return _placed(parts, [0] * prod(shape), shape, dtype)


def _placed(parts: Sequence[tuple[Array, Shape]], items: list[Any], shape: Shape, dtype: DType) -> Array:
    """``items`` overwritten by each array of ``parts`` from the place given for its first element."""
    strides = contiguous_strides(shape)
    for x, place in parts:
        offset = sum([start * stride for start, stride in zip(place, strides, strict=True)])
        for position, item in zip(strided_offsets(offset, x.shape, strides), x.flat(), strict=True):
            items[position] = item
    return _stored(items, shape, dtype)


# ---- reductions and products


def _rows(x: Array, axes: Sequence[int]) -> tuple[list[Any], list[int], list[int]]:
    """The elements of ``x``, where each row along ``axes`` starts, and the steps along it."""
    strides = contiguous_strides(x.shape)
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    starts = strided_offsets(0, tuple([x.shape[a] for a in kept]), tuple([strides[a] for a in kept]))
    steps = strided_offsets(0, tuple([x.shape[a] for a in axes]), tuple([strides[a] for a in axes]))
    return numbers(x), starts, steps


def _reduce(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    kind, axes = attrs
    items, starts, steps = _rows(inputs[0], axes)
    reduce = reduce_row(kind, dtype)
    return Array.from_list(
        [reduce([items[start + step] for step in steps]) for start in starts], shape, dtype
    )


def _argreduce(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    kind, axis = attrs
    items, starts, steps = _rows(inputs[0], (axis,))
    position = argreduce_row(kind)
    return Array.from_list(
        [position([items[start + step] for step in steps]) for start in starts], shape, dtype
    )


def _scan(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    kind, axis, reverse = attrs
    items, starts, steps = _rows(inputs[0], (axis,))
    scan = scan_row(kind, dtype)
    if reverse:
        steps.reverse()
    for start in starts:
        row = scan([items[start + step] for step in steps])
        for step, value in zip(steps, row, strict=True):
            items[start + step] = value
    return Array.from_list(items, shape, dtype)


def _dot(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    """Row by row, or column by column where columns are longer: a fused multiply-add has no left and
    right.
    """
    a, b = inputs
    rows, columns, inner = a.shape[-2], b.shape[-1], a.shape[-1]
    if inner == 0:
        return _stored([0] * prod(shape), shape, dtype)
    times = row_times_matrix(dtype)
    left, right = numbers(a), numbers(b)
    result: list[Any] = []
    for batch in range(prod(shape[:-2])):
        own_left = left[batch * rows * inner : (batch + 1) * rows * inner]
        own_right = right[batch * inner * columns : (batch + 1) * inner * columns]
        if columns >= rows:
            matrix = _split(own_right, columns)
            result.extend(chain.from_iterable(times(row, matrix) for row in _split(own_left, inner)))
        else:
            matrix = [own_left[k::inner] for k in range(inner)]
            results = [times(own_right[column::columns], matrix) for column in range(columns)]
            result.extend(chain.from_iterable(zip(*results, strict=True)))
    return Array.from_list(result, shape, dtype)


def _split(items: list[Any], size: int) -> list[list[Any]]:
    """Consecutive rows of ``size`` items; for size 0 none are needed."""
    return [items[start : start + size] for start in range(0, len(items), size)] if size else []


# ---- indices


def _gather(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    x, indices = inputs[0], inputs[1:]
    count = len(indices)
    strides = contiguous_strides(x.shape)
    row = prod(x.shape[count:])
    items = x.flat()
    zeros = [0] * row
    result: list[Any] = []
    for start in positions("gather", attrs[0], [i.flat() for i in indices], x.shape[:count], strides[:count]):
        result.extend(zeros if start is None else items[start : start + row])
    return _stored(result, shape, dtype)


def _scatter(attrs: Attrs, inputs: Sequence[Array], shape: Shape, dtype: DType) -> Array:
    kind, mode = attrs
    x, *indices, values = inputs
    count = len(indices)
    strides = contiguous_strides(shape)
    row = prod(shape[count:])
    items, updates = numbers(x), numbers(values)
    combine = None if kind == "set" else scalar.combine(kind, dtype)
    round_ = rounder(dtype)
    places = positions("scatter", mode, [i.flat() for i in indices], shape[:count], strides[:count])
    for i, start in enumerate(places):
        if start is None:
            continue
        new = updates[i * row : (i + 1) * row]
        if combine is not None:
            new = round_(map(combine, items[start : start + row], new))
        items[start : start + row] = new
    return Array.from_list(items, shape, dtype)


_COMPUTE: dict[str, Callable[[Attrs, Sequence[Array], Shape, DType], Array]] = {
    "constant": _constant,
    "iota": _iota,
    "random_bits": _random_bits,
    "bitcast": _bitcast,
    "reshape": _reshape,
    "pad": _pad,
    "concat": _concat,
    "reduce": _reduce,
    "argreduce": _argreduce,
    "scan": _scan,
    "dot": _dot,
    "gather": _gather,
    "scatter": _scatter,
}
