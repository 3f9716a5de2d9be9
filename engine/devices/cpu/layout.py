"""Layouts: which axes of strided operands run as one, and in which order a dense result is best laid out."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod
from typing import Any, NamedTuple

from engine.core.dtype import DType
from engine.devices.array import contiguous_strides
from engine.errors import ShapeError

MAX_RANK = 8  # GM_MAX_RANK of native/strided.h
BLOCK = 1024  # GM_BLOCK: the most elements that are staged
DENSE, REPEATED, STRIDED = 0, 1, 2  # how native/strided.h reads an operand

Shape = tuple[int, ...]
Strides = tuple[int, ...]


class Operand(NamedTuple):
    """An array without its storage: what kernels are prepared for."""

    shape: Shape
    strides: Strides
    dtype: DType

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        expected = contiguous_strides(self.shape)
        return all(
            size == 1 or own == dense
            for size, own, dense in zip(self.shape, self.strides, expected, strict=True)
        )


class Task(NamedTuple):
    """One primitive to be prepared: its attributes, its operands, and shape and dtype of its value.

    ``row_major`` asks for a result that lies so; else it may lie as its operands do.
    """

    op: str
    attrs: tuple[Any, ...]
    operands: tuple[Operand, ...]
    shape: Shape
    dtype: DType
    row_major: bool = False

    @property
    def result(self) -> Operand:
        """The value laid out row-major."""
        return Operand(self.shape, contiguous_strides(self.shape), self.dtype)


def collapse(shape: Shape, *strides: Strides) -> tuple[Shape, tuple[Strides, ...]]:
    """Fewest axes over which every operand still has strides; always at least one axis.

    Axes of size 1 go; neighbours join where for each operand the outer stride is the inner size times the
    inner stride. Raises ShapeError where more than 8 axes remain.
    """
    sizes: list[int] = []
    steps: list[tuple[int, ...]] = []  # one tuple an axis: the stride of each operand
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        step = tuple(own[axis] for own in strides)
        if sizes and all(outer == size * inner for outer, inner in zip(steps[-1], step, strict=True)):
            sizes[-1] *= size
            steps[-1] = step
        else:
            sizes.append(size)
            steps.append(step)
    if len(sizes) > MAX_RANK:
        raise ShapeError(
            f"operands of shape {shape} step through memory along {len(sizes)} separate axes, at most "
            f"{MAX_RANK} are possible; reshape the operands so that neighbouring axes join"
        )
    if not sizes:
        return (1,), tuple((0,) for _ in strides)
    return tuple(sizes), tuple(zip(*steps, strict=True))


def dense_strides(shape: Shape, operands: Sequence[Strides]) -> Strides:
    """Strides without gaps for a result of ``shape``, in the axis order of the first operand without gaps.

    So a chain of elementwise operations on a transposed array stays transposed and nothing is shuffled.
    Row-major where no operand is dense.
    """
    row_major = contiguous_strides(shape)
    for strides in operands:
        order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
        expected = 1
        result = list(row_major)
        for axis in reversed(order):
            if shape[axis] == 1:
                continue
            if strides[axis] != expected:
                break
            result[axis] = expected
            expected *= shape[axis]
        else:
            return tuple(result)
    return row_major


def in_order(shape: Shape, dense: Strides, strides: Sequence[Strides]) -> tuple[Shape, list[Strides]]:
    """``shape`` and ``strides`` with axes sorted so that ``dense`` is row-major."""
    order = sorted(range(len(shape)), key=lambda axis: (-dense[axis], axis))
    return tuple(shape[a] for a in order), [tuple(own[a] for a in order) for own in strides]


def layout_words(shape: Shape, operands: Sequence[Strides], repeated: Sequence[int] = ()) -> list[int]:
    """The layout part of a kernel's dims: rank, shape, then kind and strides of each operand.

    ``repeated`` are the operands that blocks read anew each time; see ``blocks``.
    """
    dense = contiguous_strides(shape)
    words = [len(shape), *shape]
    for k, strides in enumerate(operands):
        words += [DENSE if strides == dense else REPEATED if k in repeated else STRIDED, *strides]
    return words


def blocks(shape: Shape, operands: Sequence[Strides]) -> tuple[int, list[int]]:
    """Elements a block, and the operands of which every block reads the same.

    An operand repeats after the axes that follow its last leading axis of stride 0; a block is a whole number
    of periods of those operands.
    """
    period, repeated = 1, []
    for k, strides in enumerate(operands):
        leading = next((axis for axis, stride in enumerate(strides) if stride), len(shape))
        joint = lcm(period, prod(shape[leading:]))
        if leading and joint <= BLOCK:
            period = joint
            repeated.append(k)
    return BLOCK // period * period, repeated
