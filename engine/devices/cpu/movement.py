"""Movement: views where strides can say it, else copies between layouts."""

from __future__ import annotations

from math import prod
from typing import Any

from engine.devices.array import Array, contiguous_strides, view
from engine.devices.cpu.layout import Operand, Shape, Strides, Task, collapse, layout_words
from engine.devices.cpu.native import Native, native_unit
from engine.devices.cpu.step import (
    RESULT,
    Call,
    EmptyStep,
    KernelStep,
    Launch,
    Launches,
    LaunchStep,
    Ref,
    Step,
    ViewStep,
)

CHUNK = 32768  # elements
_TILE = 32  # GM_TILE
_UNIT = native_unit("movement.h")


def prepare_view(task: Task) -> ViewStep | None:
    """The step of what needs no kernel: the operand's storage read otherwise. None for all else."""
    x, dtype = task.operands[0], task.dtype
    same_bits = task.op in ("cast", "bitcast") and x.dtype is dtype
    if same_bits or (task.op == "bitcast" and not x.dtype.is_float):
        return ViewStep(0, x._replace(dtype=dtype))
    storage: Any = None
    moved = view(task.op, task.attrs, Array(storage, 0, *x))
    return None if moved is None else ViewStep(moved.offset, Operand(moved.shape, moved.strides, dtype))


def prepare_contiguous(native: Native, x: Operand) -> KernelStep:
    """A row-major copy."""
    result = Operand(x.shape, contiguous_strides(x.shape), x.dtype)
    return KernelStep(native, copy_call(native, x, result.strides), [x.dtype.size], result)


def prepare_copy(native: Native, moved: ViewStep) -> Launches:
    """What a view shows, as a row-major buffer of its own."""
    x = moved.result
    result = Operand(x.shape, contiguous_strides(x.shape), x.dtype)
    if not x.size:
        return EmptyStep(result)
    size = x.dtype.size
    buffers = (Ref(RESULT), Ref(0, moved.offset * size))
    return LaunchStep(native, result, x.size * size, [Launch(copy_call(native, x, result.strides), buffers)])


def prepare_reshape(native: Native, task: Task) -> Step:
    """A reshape that no strides give: a row-major copy, read in the new shape."""
    x = task.operands[0]
    call = copy_call(native, x, contiguous_strides(x.shape))
    return KernelStep(native, call, [x.dtype.size], task.result)


def copy_call(native: Native, x: Operand, target: Strides) -> Call:
    """The kernel that copies a non-empty ``x`` to a place with strides ``target``."""
    sizes, (source, target) = collapse(x.shape, x.strides, target)
    turned = turned_axis(sizes, source, target)
    if turned is None:
        elements = prod(sizes)
        words = [elements, CHUNK, *layout_words(sizes, [source, target])]
        return Call(native.symbol(_UNIT, f"gm_copy_{x.dtype.size}"), words, -(-elements // CHUNK))
    rows, columns = sizes[turned], sizes[-1]
    outer = [axis for axis in range(len(sizes) - 1) if axis != turned]
    outer_sizes = tuple(sizes[axis] for axis in outer) or (1,)
    outer_steps = [tuple(own[axis] for axis in outer) or (0,) for own in (source, target)]
    strips = prod(outer_sizes) * -(-rows // _TILE)
    a_chunk = max(1, CHUNK // (_TILE * columns))
    words = [strips, a_chunk, columns, rows, target[turned], source[-1]]
    words += layout_words(outer_sizes, outer_steps)
    return Call(native.symbol(_UNIT, f"gm_transpose_{x.dtype.size}"), words, -(-strips // a_chunk))


def turned_axis(sizes: Shape, source: Strides, target: Strides) -> int | None:
    """The axis along which the source runs while the target runs along the last; None for no transpose.

    Such a copy goes by tiles, so that neither side leaves a cache line half used.
    """
    if target[-1] != 1 or source[-1] in (0, 1) or sizes[-1] < 4:
        return None
    for axis, (size, stride) in enumerate(zip(sizes[:-1], source[:-1], strict=True)):
        if stride == 1 and size >= 4:
            return axis
    return None


def prepare_concat(native: Native, task: Task) -> Step:
    """Each operand is copied to its place in the result; attrs (axis,)."""
    axis, result = task.attrs[0], task.result
    size = task.dtype.size
    copies = []
    start = 0
    for k, x in enumerate(task.operands):
        if x.size:
            call = copy_call(native, x, result.strides)
            copies.append(Launch(call, (Ref(RESULT, start * size), Ref(k))))
        start += x.shape[axis] * result.strides[axis]
    return LaunchStep(native, result, result.size * size, copies)


def prepare_pad(native: Native, task: Task) -> Step:
    """The fill value everywhere, then the operand in its place; attrs (low, high)."""
    x, result = task.operands[0], task.result
    everywhere = Operand(task.shape, (0,) * len(task.shape), task.dtype)
    launches = [Launch(copy_call(native, everywhere, result.strides), (Ref(RESULT), Ref(1)))]
    if x.size:
        place = sum(low * stride for low, stride in zip(task.attrs[0], result.strides, strict=True))
        buffers = (Ref(RESULT, place * task.dtype.size), Ref(0))
        launches.append(Launch(copy_call(native, x, result.strides), buffers, 1))
    return LaunchStep(native, result, result.size * task.dtype.size, launches)


def prepare_iota(native: Native, task: Task) -> Step:
    """One run of numbers, seen by every row; attrs (shape, axis, dtype)."""
    shape, axis = task.attrs[:2]
    dtype = task.dtype
    size = shape[axis]
    run = Launch(Call(native.symbol(_UNIT, f"gm_iota_{dtype.suffix}"), [size], 1), (Ref(RESULT),))
    strides = tuple(int(own == axis) for own in range(len(shape)))
    return LaunchStep(native, Operand(shape, strides, dtype), size * dtype.size, [run])
