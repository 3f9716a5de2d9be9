"""Steps: what the device runs for one primitive on operands of known layouts, prepared once and kept.

A step is data: launches of kernels on its operands, its result and blocks of scratch. Run at once it
allocates them; a plan takes the launches and says itself where everything lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import NamedTuple, TypeAlias

from engine.devices.array import Array, Storage, ffi
from engine.devices.cpu.layout import Operand
from engine.devices.cpu.native import Native
from engine.errors import BoundsError

RESULT = -1


def scratch(k: int) -> int:
    """How a buffer reference names scratch block ``k``; operands are named from 0 on, the result RESULT."""
    return -2 - k


class Call(NamedTuple):
    """A kernel's address, its dims, and the number of chunks."""

    kernel: int
    words: Sequence[int]
    chunks: int


class Ref(NamedTuple):
    """A buffer of a launch: an operand, the result or a scratch block, from ``offset`` bytes on."""

    which: int
    offset: int = 0


class Launch(NamedTuple):
    """A call and its buffers. Launches of one ``stage`` do not depend on each other."""

    call: Call
    buffers: tuple[Ref, ...]
    stage: int = 0


class Check(NamedTuple):
    """``words`` int64 words that must be negative after a launch; ``explain`` makes an error of one that is
    not.
    """

    buffer: Ref
    words: int
    explain: Callable[[int, Sequence[Array]], BoundsError]
    stage: int = 0


class KernelStep:
    """Allocates the result and starts one kernel on it and the operands."""

    __slots__ = ("_dims", "_head", "_pack", "_sizes", "_start", "call", "nbytes", "result")

    scratch: tuple[int, ...] = ()
    checks: tuple[Check, ...] = ()

    def __init__(self, native: Native, call: Call, sizes: Sequence[int], result: Operand) -> None:
        """``sizes`` are the element sizes of the operands."""
        self.call = call
        self.result = result
        self.nbytes = result.size * result.dtype.size
        self._dims = ffi.new("int64_t[]", list(call.words))
        self._head = (call.kernel, int(ffi.cast("intptr_t", self._dims)), call.chunks)
        self._pack = Struct(f"={4 + len(sizes)}q").pack
        self._start = native.start
        self._sizes = tuple(sizes)

    @property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch(self.call, (Ref(RESULT), *[Ref(k) for k in range(len(self._sizes))])),)

    def __call__(self, inputs: Sequence[Array]) -> Array:
        storage = Storage(self.nbytes)
        sizes = self._sizes
        if len(sizes) == 2:  # the common cases, without a comprehension's cost
            a, b = inputs
            sources = [a.storage.address + a.offset * sizes[0], b.storage.address + b.offset * sizes[1]]
        elif len(sizes) == 1:
            sources = [inputs[0].storage.address + inputs[0].offset * sizes[0]]
        else:
            sources = [x.storage.address + x.offset * size for x, size in zip(inputs, sizes, strict=True)]
        self._start(self._pack(*self._head, storage.address, *sources))
        return Array(storage, 0, *self.result)

    def bind(self, inputs: Sequence[Array]) -> tuple[Array, Callable[[], None]]:
        """A result for these very operands, and the call that computes it anew each time."""
        result = Array(Storage(self.nbytes), 0, *self.result)
        packed = self._pack(*self._head, result.address, *[x.address for x in inputs])
        return result, partial(self._call, packed, (result, *inputs))

    def _call(self, packed: bytes, kept: tuple[Array, ...]) -> None:
        """Starts the kernel; step and arrays live as long as the partial call that holds them."""
        self._start(packed)


class LaunchStep:
    """Several launches in order of their stages, with blocks of scratch between them.

    Raises what a check explains, after the launches.
    """

    __slots__ = ("_calls", "_dims", "_start", "checks", "launches", "nbytes", "result", "scratch")

    def __init__(  # noqa: PLR0917  what a step is, in its order
        self,
        native: Native,
        result: Operand,
        nbytes: int,
        launches: Sequence[Launch],
        scratch: Sequence[int] = (),
        checks: Sequence[Check] = (),
    ) -> None:
        """``nbytes`` are the result's, which may repeat what it holds; ``scratch`` those of each block."""
        self.result = result
        self.nbytes = nbytes
        self.launches = tuple(sorted(launches, key=lambda launch: launch.stage))
        self.scratch = tuple(scratch)
        self.checks = tuple(checks)
        self._start = native.start
        self._dims = [ffi.new("int64_t[]", list(launch.call.words)) for launch in self.launches]
        self._calls = []
        for launch, dims in zip(self.launches, self._dims, strict=True):
            head = (launch.call.kernel, int(ffi.cast("intptr_t", dims)), launch.call.chunks)
            self._calls.append((Struct(f"={3 + len(launch.buffers)}q").pack, head, launch.buffers))

    def __call__(self, inputs: Sequence[Array]) -> Array:
        storage = Storage(self.nbytes)
        self._run(inputs, storage.address)
        return Array(storage, 0, *self.result)

    def bind(self, inputs: Sequence[Array]) -> tuple[Array, Callable[[], None]]:
        """As a KernelStep's."""
        storage = Storage(self.nbytes)
        operands = tuple(inputs)
        return Array(storage, 0, *self.result), lambda: self._run(operands, storage.address)

    def _run(self, inputs: Sequence[Array], target: int) -> None:
        blocks = [Storage(nbytes) for nbytes in self.scratch]
        places = [x.address for x in inputs]
        places += [block.address for block in reversed(blocks)]
        places.append(target)
        for pack, head, buffers in self._calls:
            self._start(pack(*head, *[places[which] + offset for which, offset in buffers]))
        for check in self.checks:
            words = ffi.cast("int64_t *", places[check.buffer.which] + check.buffer.offset)
            for word in ffi.unpack(words, check.words):
                if word >= 0:
                    raise check.explain(word, inputs)


class ViewStep:
    """The operand's storage read with other strides, from another element on."""

    __slots__ = ("offset", "result")

    def __init__(self, offset: int, result: Operand) -> None:
        self.offset = offset
        self.result = result

    def __call__(self, inputs: Sequence[Array]) -> Array:
        x = inputs[0]
        return Array(x.storage, x.offset + self.offset, *self.result)

    def bind(self, inputs: Sequence[Array]) -> tuple[Array, Callable[[], None]]:
        """The view, which shows by itself what the operand holds."""
        return self(inputs), lambda: None


class EmptyStep:
    """A result without elements."""

    __slots__ = ("result",)

    nbytes = 0
    launches: tuple[Launch, ...] = ()
    scratch: tuple[int, ...] = ()
    checks: tuple[Check, ...] = ()

    def __init__(self, result: Operand) -> None:
        self.result = result

    def __call__(self, inputs: Sequence[Array]) -> Array:
        return Array(Storage(0), 0, *self.result)

    def bind(self, inputs: Sequence[Array]) -> tuple[Array, Callable[[], None]]:
        return self(inputs), lambda: None


Launches: TypeAlias = KernelStep | LaunchStep | EmptyStep
"""Steps that compute their result by launches."""

Step: TypeAlias = Launches | ViewStep
"""Computes one primitive's value from its operands, whose layouts are those it was prepared for."""

Prepared: TypeAlias = Step | tuple[int, ...]
"""A step, or the operands (by position) that must be made contiguous before there is one."""


class Part(NamedTuple):
    """A step of a sequence: what its operands are, and where its result goes."""

    step: Launches
    operands: Sequence[int]
    target: int


def sequence(native: Native, parts: Sequence[Part], blocks: Sequence[int]) -> LaunchStep:
    """``parts`` one after another as one step; the last computes the result.

    Operands and targets are named as in buffer references; scratch ``blocks`` hold what goes from part to
    part.
    """
    launches: list[Launch] = []
    checks: list[Check] = []
    sizes = list(blocks)
    stage = 0
    for step, operands, target in parts:
        base = len(sizes)

        def moved(
            ref: Ref, operands: Sequence[int] = operands, target: int = target, base: int = base
        ) -> Ref:
            if ref.which >= 0:
                return Ref(operands[ref.which], ref.offset)
            return Ref(target if ref.which == RESULT else ref.which - base, ref.offset)

        for own in step.launches:
            buffers = tuple([moved(ref) for ref in own.buffers])
            launches.append(Launch(own.call, buffers, stage + own.stage))
        for check in step.checks:
            checks.append(check._replace(buffer=moved(check.buffer), stage=stage + check.stage))
        sizes += step.scratch
        stage = 1 + max([launch.stage for launch in launches], default=-1)
    last = parts[-1].step
    return LaunchStep(native, last.result, last.nbytes, launches, sizes, checks)
