"""reduce, argreduce and scan: the fixed trees and chains of ``native/reduce.h``, told layouts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from engine.devices.cpu.layout import Task, collapse, layout_words
from engine.devices.cpu.native import Native
from engine.devices.cpu.step import RESULT, Call, KernelStep, Launch, LaunchStep, Prepared, Ref, Step


class _Kernel(NamedTuple):
    """Names in ``native/reduce.h``: the kernel of a kind and dtype, and what counts its chunks."""

    kernel: str
    chunks: str


_KERNELS = {
    "reduce": _Kernel("gm_chunk_{kind}_{t}", "gm_reduction_chunks"),
    "argreduce": _Kernel("gm_chunk_arg{kind}_{t}", "gm_reduction_chunks"),
    "scan": _Kernel("gm_chunk_scan_{kind}_{t}", "gm_scan_chunk_count"),
}


def prepare_reduce(native: Native, task: Task) -> Prepared:
    """The step of a reduction with a non-empty result; attrs (kind, axes)."""
    return _reduction(native, task, task.attrs[1])


def prepare_argreduce(native: Native, task: Task) -> Prepared:
    """The step of the position of an extreme; attrs (kind, axis)."""
    return _reduction(native, task, task.attrs[1:])


def prepare_scan(native: Native, task: Task) -> Step:
    """The step of a running reduction along an axis; attrs (kind, axis, reverse)."""
    _, axis, reverse = task.attrs
    x, result = task.operands[0], task.result
    shape, size = task.shape, task.dtype.size
    others = [other for other in range(len(shape)) if other != axis]
    sizes, steps = collapse(
        tuple(shape[other] for other in others),
        *(tuple(own[other] for other in others) for own in (x.strides, result.strides)),
    )
    steps_along = x.strides[axis], result.strides[axis]
    sign = -1 if reverse else 1
    words = [shape[axis], *(sign * step for step in steps_along), *layout_words(sizes, steps)]
    last = (shape[axis] - 1) * size if reverse else 0  # where the chain starts
    x_start, start = (last * step for step in steps_along)
    launch = Launch(_call(native, task, words), (Ref(RESULT, start), Ref(0, x_start)))
    return LaunchStep(native, result, result.size * size, [launch])


def _reduction(native: Native, task: Task, axes: Sequence[int]) -> KernelStep:
    x = task.operands[0]
    words: list[int] = []
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    for part in (kept, axes):
        sizes, steps = collapse(
            tuple(x.shape[axis] for axis in part), tuple(x.strides[axis] for axis in part)
        )
        words += layout_words(sizes, steps)
    return KernelStep(native, _call(native, task, words), [x.dtype.size], task.result)


def _call(native: Native, task: Task, words: Sequence[int]) -> Call:
    unit = _unit(task.op, task.attrs[0], task.operands[0].dtype.suffix)
    return Call(native.symbol(unit, "kernel"), words, native.chunks(unit, "chunks", words))


@cache
def _unit(op: str, kind: str, suffix: str) -> str:
    """One kernel of ``native/reduce.h``: all of them would take seconds to build."""
    names = _KERNELS[op]
    kernel = names.kernel.format(kind=kind, t=suffix)
    return (
        '#include "reduce.h"\n'
        f"void kernel(void **bufs, const int64_t *dims, int64_t chunk) {{ {kernel}(bufs, dims, chunk); }}\n"
        f"int64_t chunks(const int64_t *dims) {{ return {names.chunks}(dims); }}\n"
    )
