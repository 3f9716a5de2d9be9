"""gather and scatter: indices become offsets of rows first, whatever their dtypes, layouts and mode."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from engine.core.dtype import DType, int32, int64, uint32
from engine.devices.array import Array, contiguous_strides
from engine.devices.cpu.layout import Operand, Strides, Task, collapse, layout_words
from engine.devices.cpu.movement import CHUNK, copy_call, prepare_contiguous
from engine.devices.cpu.native import Native, native_unit
from engine.devices.cpu.step import RESULT, Call, Check, Launch, LaunchStep, Prepared, Ref, scratch
from engine.errors import BoundsError

_MODES = ("clamp", "wrap", "zero", "mirror", "checked")  # as numbered in native/index.h
_TYPES = {int32: 0, uint32: 1, int64: 2}
_UNIT = native_unit("index.h")
_MOVEMENT = native_unit("movement.h")
_MAX_TILES = 16  # each scatter chunk walks all positions, so more would read more than they write
_BITWISE = {"set": "b", "and": "a & b", "or": "a | b", "xor": "a ^ b"}


class Offsets:
    """The launch that turns indices of given layouts into offsets: where in x each position points, in
    elements.

    They lie in a block of ``nbytes`` bytes, followed by a word a chunk for checking.
    """

    def __init__(self, native: Native, task: Task, indices: Sequence[Operand], strides: Strides) -> None:
        """``strides`` are those of x's indexed axes; the mode is the task's last attribute."""
        self._op, mode = task.op, task.attrs[-1]
        self._axes = task.operands[0].shape[: len(indices)]
        self._shape = indices[0].shape
        self.positions = prod(self._shape)
        sizes, steps = collapse(self._shape, *(index.strides for index in indices))
        words = [self.positions, CHUNK, len(indices), _MODES.index(mode)]
        for index, size, stride in zip(indices, self._axes, strides, strict=True):
            words += [_TYPES[index.dtype], size, stride]
        words += layout_words(sizes, steps)
        chunks = -(-self.positions // CHUNK)
        errors = Ref(scratch(0), 8 * self.positions)
        self.nbytes = 8 * (self.positions + chunks)
        self.launch = Launch(
            Call(native.symbol(_UNIT, "gm_offsets"), words, chunks),
            (Ref(scratch(0)), errors, *[Ref(1 + k) for k in range(len(indices))]),
        )
        self.checks = (Check(errors, chunks, self._error),) if mode == "checked" else ()

    def _error(self, position: int, inputs: Sequence[Array]) -> BoundsError:
        place = []
        for stride in contiguous_strides(self._shape):
            place.append(position // stride)
            position %= stride
        for axis, (index, size) in enumerate(zip(inputs[1:], self._axes, strict=False)):
            at = index.offset + sum(i * stride for i, stride in zip(place, index.strides, strict=True))
            value = index.elements()[at]
            if not 0 <= value < size:
                where = f" at position {tuple(place)}" if place else ""
                return BoundsError(
                    f"{self._op}: index {value}{where} is out of range for axis {axis} of size {size}; "
                    f"indices must be from 0 to {size - 1}"
                )
        raise AssertionError("a checked index was found out of range and then in range")


def prepare_gather(native: Native, task: Task) -> Prepared:
    """The step of a non-empty gather; attrs (mode,)."""
    x, indices, result = task.operands[0], task.operands[1:], task.result
    count = len(indices)
    (row, *more), (row_strides,) = collapse(x.shape[count:], x.strides[count:])
    if more:
        return (0,)  # a row must have one stride
    offsets = Offsets(native, task, indices, x.strides[:count])
    rows_a_chunk = max(1, CHUNK // row)
    words = [offsets.positions, rows_a_chunk, row, row_strides[0]]
    kernel = native.symbol(_MOVEMENT, f"gm_gather_{task.dtype.size}")
    call = Call(kernel, words, -(-offsets.positions // rows_a_chunk))
    rows = Launch(call, (Ref(RESULT), Ref(0), Ref(scratch(0))), 1)
    nbytes = result.size * task.dtype.size
    return LaunchStep(native, result, nbytes, [offsets.launch, rows], [offsets.nbytes], offsets.checks)


def prepare_scatter(native: Native, task: Task) -> Prepared:
    """The step of a scatter into a copy of a non-empty x; attrs (kind, mode)."""
    kind, dtype, result = task.attrs[0], task.dtype, task.result
    x, *indices, values = task.operands
    if not values.is_contiguous:
        return (len(indices) + 1,)
    if not values.size:
        return prepare_contiguous(native, x)
    offsets = Offsets(native, task, indices, result.strides[: len(indices)])
    copy = Launch(copy_call(native, x, result.strides), (Ref(RESULT), Ref(0)))
    length = prod(x.shape[len(indices) :])
    tiles = scatter_tiles(offsets.positions, prod(x.shape[: len(indices)]), length)
    kernel = native.symbol(_scatter_unit(kind, dtype), "scatter")
    call = Call(kernel, [offsets.positions, length, *tiles[:3]], tiles[3])
    add = Launch(call, (Ref(RESULT), Ref(len(indices) + 1), Ref(scratch(0))), 1)
    nbytes = result.size * dtype.size
    return LaunchStep(native, result, nbytes, [offsets.launch, copy, add], [offsets.nbytes], offsets.checks)


@cache
def _scatter_unit(kind: str, dtype: DType) -> str:
    if kind in _BITWISE:
        lane, vector, scalar = f"u{8 * dtype.size}", _BITWISE[kind], _BITWISE[kind]
    elif kind == "add":
        lane, vector, scalar = dtype.suffix, "a + b", "a + b"
    else:
        lane, vector = dtype.suffix, f"{kind}_{dtype.suffix}(a, b)"
        better = "<" if kind == "min" else ">"
        scalar = f"{kind}1_{dtype.suffix}(a, b)" if dtype.is_float else f"a {better} b ? a : b"
    return f'#include "index.h"\nGM_SCATTER(GM_AS_{lane}, {vector}, {scalar})\n'


def scatter_tiles(positions: int, rows: int, length: int) -> tuple[int, int, int, int]:
    """How the destination is cut: columns a tile, tiles along a row, offsets a tile, tiles in all.

    Rows are cut into runs of columns where they are long, else the rows are dealt out.
    """
    wanted = min(_MAX_TILES, -(-positions * length // CHUNK))
    if wanted <= 1:
        return length, 1, rows * length, 1
    across = min(wanted, -(-length // 64))
    columns = -(-length // across)
    across = -(-length // columns)
    rows_a_tile = -(-rows // max(1, wanted // across))
    return columns, across, rows_a_tile * length, across * -(-rows // rows_a_tile)
