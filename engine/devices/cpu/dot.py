"""dot: the prebuilt packed product of ``native/gemm.h``, told sizes and strides."""

from __future__ import annotations

from functools import cache

from engine.devices.cache import NATIVE
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
    name = f"gm_dot_{task.dtype.suffix}"
    call = Call(native.symbol(_unit(), name), words, native.chunks(_unit(), f"{name}_chunks", words))
    return KernelStep(native, call, [task.dtype.size] * 2, task.result)


@cache
def _unit() -> str:
    return (NATIVE / "gemm.c").read_text()
