"""dot: the prebuilt packed product of ``native/gemm.h``, told sizes and strides."""

from __future__ import annotations

from functools import cache
from math import prod

from engine.core.dtype import DType, float32, float64
from engine.devices.cpu.layout import Task, collapse
from engine.devices.cpu.native import Native
from engine.devices.cpu.step import Call, KernelStep, Prepared

MAX_BATCH = 6  # GM_MAX_BATCH: batch axes after collapsing


def prepare(native: Native, task: Task) -> Prepared:
    """The step of a non-empty product."""
    words = _words(task)
    if not words:
        return (0, 1)
    unit = _unit(task.dtype)
    call = Call(native.symbol(unit, "kernel"), words, native.chunks(unit, "chunks", words))
    return KernelStep(native, call, [task.dtype.size] * 2, task.result)


def prepare_fused(native: Native, task: Task, whole_rows: bool) -> Call:
    """A float product whose kernel takes an epilogue as its last argument, for printed kernels to call."""
    words = _words(task)
    assert words
    words[-1] = int(whole_rows)
    unit = _unit(task.dtype)
    return Call(native.symbol(unit, "fused"), words, native.chunks(unit, "chunks", words))


def prepare_products(native: Native, task: Task) -> Call:
    """Products of a batch, of which a printed kernel names the first and the end; a chunk is one."""
    words = _words(task)
    assert words
    return Call(native.symbol(_unit(task.dtype), "products"), words, prod(task.shape[:-2]))


def _words(task: Task) -> list[int]:
    """A gm_dot; empty where the batch has more axes than that has."""
    a, b = task.operands
    batch, (a_batch, b_batch) = collapse(task.shape[:-2], a.strides[:-2], b.strides[:-2])
    if len(batch) > MAX_BATCH:
        return []
    words = [*task.shape[-2:], a.shape[-1], *a.strides[-2:], *b.strides[-2:], len(batch)]
    for values in (batch, a_batch, b_batch):
        words += [*values, *(0,) * (MAX_BATCH - len(values))]
    return [*words, 0]


@cache
def _unit(dtype: DType) -> str:
    """The kernel of one dtype: all of them would take a second to build."""
    fused = dtype in (float32, float64)
    count = "gm_dot_chunk_count" if fused else "gm_row_chunk_count"
    suffix = dtype.suffix
    more = (
        "void fused(void **bufs, const int64_t *dims, int64_t chunk, gm_rows rows) "
        f"{{ gm_chunk_then_{suffix}(bufs, dims, chunk, rows); }}\n"
        "void products(void **bufs, const int64_t *dims, int64_t first, int64_t end) "
        f"{{ gm_products_{suffix}(bufs, dims, first, end); }}\n"
    )
    return (
        '#include "gemm.h"\n'
        "void kernel(void **bufs, const int64_t *dims, int64_t chunk) "
        f"{{ gm_chunk_{suffix}(bufs, dims, chunk); }}\n"
        f"int64_t chunks(const int64_t *dims) {{ return {count}((const gm_dot *)dims, {dtype.size}); }}\n"
    ) + (more if fused else "")
