"""dot: the prebuilt packed product of ``native/gemm.h``, told sizes and strides."""

from __future__ import annotations

from functools import cache

from engine.core.dtype import DType, float32, float64
from engine.devices.cpu.layout import Task, collapse
from engine.devices.cpu.native import Native
from engine.devices.cpu.step import Call, KernelStep, Prepared

MAX_BATCH = 6  # GM_MAX_BATCH: batch axes after collapsing


def prepare(native: Native, task: Task) -> Prepared:
    """The step of a non-empty product."""
    a, b = task.operands
    batch, (a_batch, b_batch) = collapse(task.shape[:-2], a.strides[:-2], b.strides[:-2])
    if len(batch) > MAX_BATCH:
        return (0, 1)
    words = [*task.shape[-2:], a.shape[-1], *a.strides[-2:], *b.strides[-2:], len(batch)]
    for values in (batch, a_batch, b_batch):
        words += [*values, *(0,) * (MAX_BATCH - len(values))]
    unit = _unit(task.dtype)
    call = Call(native.symbol(unit, "kernel"), words, native.chunks(unit, "chunks", words))
    return KernelStep(native, call, [task.dtype.size] * 2, task.result)


@cache
def _unit(dtype: DType) -> str:
    """The kernel of one dtype: all of them would take a second to build."""
    count = "gm_dot_chunk_count" if dtype in (float32, float64) else "gm_row_chunk_count"
    return (
        '#include "gemm.h"\n'
        "void kernel(void **bufs, const int64_t *dims, int64_t chunk) "
        f"{{ gm_chunk_{dtype.suffix}(bufs, dims, chunk); }}\n"
        f"int64_t chunks(const int64_t *dims) {{ return {count}((const gm_dot *)dims, {dtype.size}); }}\n"
    )
