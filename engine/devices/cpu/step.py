"""Steps: what the device runs for one primitive on operands of known layouts, prepared once and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import NamedTuple, TypeAlias

from engine.devices.array import Array, Storage, ffi
from engine.devices.cpu.layout import Operand
from engine.devices.cpu.native import Native

Step: TypeAlias = Callable[[Sequence[Array]], Array]
"""Computes one primitive's value from its operands, whose layouts are those it was prepared for."""

Prepared: TypeAlias = Step | tuple[int, ...]
"""A step, or the operands (by position) that must be made contiguous before there is one."""


class Call(NamedTuple):
    """A kernel's address, its dims, and the number of chunks."""

    kernel: int
    words: Sequence[int]
    chunks: int


class Launch:
    """A call of a kernel that lacks only the addresses of its buffers."""

    __slots__ = ("_dims", "_head", "_pack", "_start")

    def __init__(self, native: Native, call: Call, buffers: int) -> None:
        self._dims = ffi.new("int64_t[]", list(call.words))
        self._head = (call.kernel, int(ffi.cast("intptr_t", self._dims)), call.chunks)
        self._pack = Struct(f"={3 + buffers}q").pack
        self._start = native.start

    def __call__(self, *addresses: int) -> None:
        self._start(self._pack(*self._head, *addresses))


class KernelStep:
    """Allocates the result and starts one kernel on it and the operands."""

    __slots__ = ("_dims", "_head", "_nbytes", "_pack", "_result", "_sizes", "_start")

    def __init__(self, native: Native, call: Call, sizes: Sequence[int], result: Operand) -> None:
        """``sizes`` are the element sizes of the operands."""
        self._dims = ffi.new("int64_t[]", list(call.words))
        self._head = (call.kernel, int(ffi.cast("intptr_t", self._dims)), call.chunks)
        self._pack = Struct(f"={4 + len(sizes)}q").pack
        self._start = native.start
        self._sizes = tuple(sizes)
        self._result = result
        self._nbytes = result.size * result.dtype.size

    def __call__(self, inputs: Sequence[Array]) -> Array:
        storage = Storage(self._nbytes)
        sizes = self._sizes
        if len(sizes) == 2:  # the common cases, without a comprehension's cost
            a, b = inputs
            sources = [a.storage.address + a.offset * sizes[0], b.storage.address + b.offset * sizes[1]]
        elif len(sizes) == 1:
            sources = [inputs[0].storage.address + inputs[0].offset * sizes[0]]
        else:
            sources = [x.storage.address + x.offset * size for x, size in zip(inputs, sizes, strict=True)]
        self._start(self._pack(*self._head, storage.address, *sources))
        return Array(storage, 0, *self._result)

    def bind(self, inputs: Sequence[Array]) -> tuple[Array, Callable[[], None]]:
        """A result for these very operands, and the call that computes it anew each time."""
        result = Array(Storage(self._nbytes), 0, *self._result)
        packed = self._pack(*self._head, result.address, *[x.address for x in inputs])
        return result, partial(self._call, packed, (result, *inputs))

    def _call(self, packed: bytes, kept: tuple[Array, ...]) -> None:
        """Starts the kernel; step and arrays live as long as the partial call that holds them."""
        self._start(packed)


class ViewStep:
    """The operand's storage read with other strides, from another element on."""

    __slots__ = ("_offset", "_result")

    def __init__(self, offset: int, result: Operand) -> None:
        self._offset = offset
        self._result = result

    def __call__(self, inputs: Sequence[Array]) -> Array:
        x = inputs[0]
        return Array(x.storage, x.offset + self._offset, *self._result)


class EmptyStep:
    """A result without elements."""

    __slots__ = ("_result",)

    def __init__(self, result: Operand) -> None:
        self._result = result

    def __call__(self, inputs: Sequence[Array]) -> Array:
        return Array(Storage(0), 0, *self._result)
