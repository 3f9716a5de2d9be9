"""Elementwise primitives: which kernel, over which collapsed axes, in how many chunks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from engine.core.dtype import ALL, DType, bfloat16, bool_, float32, float64, int32, int64, uint32
from engine.core.opdef import OPS
from engine.devices.array import contiguous_strides
from engine.devices.cpu.layout import (
    Operand,
    Shape,
    Strides,
    Task,
    blocks,
    collapse,
    dense_strides,
    in_order,
    layout_words,
)
from engine.devices.cpu.movement import turned_axis
from engine.devices.cpu.native import Native
from engine.devices.cpu.step import Call, KernelStep, Prepared
from engine.emit.c import EXPENSIVE, elementwise_kernel, kernel_name, translation_unit

CHUNK_COST = 65536  # additions a chunk: some 8 µs of work, above what handing it to another thread costs
TURN_FIRST = 4096  # elements from which an operand that runs across the others is transposed first, by tiles
_BITCASTS = {float32: (int32, uint32), float64: (int64,), bfloat16: (), int32: (), uint32: (), int64: ()}


def prepare(native: Native, task: Task) -> Prepared:
    """The step of an elementwise primitive on operands of equal, non-empty shape."""
    op, shape, operands, dtype = task.op, task.shape, task.operands, task.dtype
    strides = contiguous_strides(shape)
    if not task.row_major:
        strides = dense_strides(shape, [operand.strides for operand in operands])
    sizes, sources = _axes(shape, strides, operands)
    elements = prod(shape)
    if elements >= TURN_FIRST and _across(sizes, sources):
        strides = contiguous_strides(shape)
        sizes, sources = _axes(shape, strides, operands)
        across = _across(sizes, sources)
        if across:
            return across
    block, repeated = blocks(sizes, sources)
    chunk = max(1, CHUNK_COST // max(OPS[op].cost, 1) // block) * block
    words = [elements, chunk, block, *layout_words(sizes, sources, repeated)]
    dtypes = tuple(operand.dtype for operand in operands)
    kernel = native.symbol(unit(op, dtypes, dtype), kernel_name(op, dtypes, dtype))
    call = Call(kernel, words, -(-elements // chunk))
    return KernelStep(native, call, [own.size for own in dtypes], Operand(shape, strides, dtype))


def _axes(shape: Shape, result: Strides, operands: Sequence[Operand]) -> tuple[Shape, Sequence[Strides]]:
    """Collapsed axes in the order in which the result lies in memory, and the operands' strides over them."""
    ordered, steps = in_order(shape, result, [result, *(operand.strides for operand in operands)])
    sizes, (_, *sources) = collapse(ordered, *steps)
    return sizes, sources


def _across(sizes: Shape, sources: Sequence[Strides]) -> tuple[int, ...]:
    """The operands that run along another axis than the result."""
    dense = contiguous_strides(sizes)
    return tuple(k for k, own in enumerate(sources) if turned_axis(sizes, own, dense) is not None)


@cache
def unit(op: str, dtypes: tuple[DType, ...], result: DType) -> str:
    """The translation unit that holds a kernel: cheap kernels of a dtype together, expensive ones alone.

    A kernel costs about 10 ms to build and a compiler 30 to start.
    """
    dtype = dtypes[-1]
    if op in ("cast", "bitcast"):
        targets = _BITCASTS[dtype] if op == "bitcast" else _cast_targets(dtype)
        return translation_unit(
            [elementwise_kernel(op, (dtype,), target) for target in targets], "elementwise.h"
        )
    if not is_cheap(op):
        return translation_unit([elementwise_kernel(op, dtypes, result)], "elementwise.h", "kmath.h")
    together = [name for name, row in OPS.items() if row.c and dtype in row.dtypes and is_cheap(name)]
    return translation_unit([_plain_kernel(name, dtype) for name in together], "elementwise.h")


def is_cheap(op: str) -> bool:
    """Whether ``op`` shares its unit: needs no kernel mathematics and is no conversion."""
    row = OPS[op]
    return row.cost < EXPENSIVE and "k_" not in (row.c or "") and op not in ("cast", "bitcast")


def _plain_kernel(op: str, dtype: DType) -> str:
    row = OPS[op]
    arity = row.arity or 1
    operands = (bool_, dtype, dtype) if op == "select" else (dtype,) * arity
    return elementwise_kernel(op, operands, bool_ if op in ("lt", "le", "eq") else dtype)


def _cast_targets(dtype: DType) -> list[DType]:
    """The dtypes one kernel casts to; between bfloat16 and 8-byte types the way leads through float32."""
    return [target for target in ALL if target is not dtype and bfloat16_pair_size(dtype, target) < 8]


def bfloat16_pair_size(dtype: DType, target: DType) -> int:
    """The larger element size of a pair with bfloat16, else 0."""
    return max(dtype.size, target.size) if bfloat16 in (dtype, target) else 0
