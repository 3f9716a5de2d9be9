"""The cpu device: prepares a step for each primitive and layout once, then only starts kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.core.dtype import DType, bfloat16, float32
from engine.core.opdef import OPS
from engine.devices.array import Array
from engine.devices.cache import KernelCache
from engine.devices.cpu import dot, elementwise, index, movement, random, reduction
from engine.devices.cpu.layout import Operand, Shape, Task
from engine.devices.cpu.native import Native
from engine.devices.cpu.step import (
    RESULT,
    EmptyStep,
    Launches,
    Part,
    Prepared,
    Step,
    ViewStep,
    scratch,
    sequence,
)
from engine.devices.regions import run_region
from engine.devices.toolchain import Toolchain, find_toolchain
from engine.errors import DeviceError
from engine.threads import default_threads

_KEPT_STEPS = 16384  # prepared steps; beyond this they are prepared anew
_FLOAT32_INSIDE = ("iota", "scatter")  # primitives without bfloat16 kernels


class CpuDevice:
    """Runs each primitive as a compiled kernel with a strided interface.

    ``threads`` sets the size of the process's one thread pool (default: ``$GRADMILL_THREADS``, else the
    usable cores); results do not depend on it. ``toolchain`` defaults to the first compiler found. Raises
    DeviceError where there is none. Safe to use from several threads.
    """

    name = "cpu"
    exact = True

    def __init__(
        self,
        threads: int | None = None,
        toolchain: Toolchain | None = None,
        kernels: KernelCache | None = None,
    ) -> None:
        kernels = kernels or KernelCache()
        toolchain = toolchain or find_toolchain(memory=kernels.folder)
        if toolchain is None:
            raise DeviceError(
                "No C compiler that builds working code was found: install gcc, clang or the ziglang wheel "
                "(pip install 'gradmill[cc]'), or name one in CC."
            )
        self.threads = default_threads() if threads is None else threads
        self.native = Native(toolchain, kernels)
        self.native.set_threads(self.threads)
        self._steps: dict[tuple[Any, ...], Step] = {}

    @property
    def toolchain(self) -> Toolchain:
        return self.native.toolchain

    def run(
        self, op: str, attrs: tuple[Any, ...], inputs: Sequence[Array], shape: Shape, dtype: DType
    ) -> Array:
        """The value of one primitive. Raises BoundsError for a checked index out of range."""
        if op == "constant":
            return Array.from_bytes(attrs[0], (), dtype)
        return self._step(op, attrs, inputs, shape, dtype)(inputs)

    def run_region(self, op: str, attrs: tuple[Any, ...], inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The results of a loop or a condition."""
        return run_region(self, op, attrs, inputs)

    def _step(
        self, op: str, attrs: tuple[Any, ...], inputs: Sequence[Array], shape: Shape, dtype: DType
    ) -> Step:
        """The step for operands of these layouts, prepared when it is first asked for."""
        parts: list[Any] = [op, attrs, shape, dtype]
        for x in inputs:
            parts += (x.shape, x.strides, x.dtype)
        key = tuple(parts)
        step = self._steps.get(key)
        if step is None:
            operands = tuple(Operand(x.shape, x.strides, x.dtype) for x in inputs)
            step = self._prepare(Task(op, attrs, operands, shape, dtype))
            if len(self._steps) >= _KEPT_STEPS:
                self._steps.clear()
            self._steps[key] = step
        return step

    def bind(
        self, op: str, attrs: tuple[Any, ...], inputs: Sequence[Array], shape: Shape, dtype: DType
    ) -> tuple[Array, Callable[[], None]]:
        """A lasting result array, and the call that computes it anew from what ``inputs`` then hold."""
        return self._step(op, attrs, inputs, shape, dtype).bind(inputs)

    def contiguous(self, x: Array) -> Array:
        """``x`` laid out row by row: itself where it is already."""
        if x.is_contiguous:
            return x
        return movement.prepare_contiguous(self.native, Operand(x.shape, x.strides, x.dtype))([x])

    def launches(self, task: Task) -> Launches:
        """The step of a task whose result is a buffer of its own, filled by launches alone."""
        moved = movement.prepare_view(task) if task.operands else None
        if moved is not None:
            return movement.prepare_copy(self.native, moved)
        step = self._prepare(task)
        assert not isinstance(step, ViewStep)
        if step.result.is_contiguous or not step.launches:
            return step
        copy = movement.prepare_contiguous(self.native, step.result)
        parts = [Part(step, range(len(task.operands)), scratch(0)), Part(copy, (scratch(0),), RESULT)]
        return sequence(self.native, parts, [step.nbytes])

    def _prepare(self, task: Task) -> Step:
        if task.operands:
            moved = movement.prepare_view(task)
            if moved is not None:
                return moved
        if 0 in task.shape:
            return EmptyStep(task.result)
        if _needs_float32(task):
            return self._through_float32(task)
        prepared = self._prepare_kernel(task)
        return self._contiguous_first(task, prepared) if isinstance(prepared, tuple) else prepared

    def _prepare_kernel(self, task: Task) -> Prepared:
        """The step of a result with elements that no view gives."""
        if OPS[task.op].kind == "elementwise":
            return elementwise.prepare(self.native, task)
        if task.op not in _KERNELS:
            raise DeviceError(f"the cpu device has no primitive {task.op!r}")
        return _KERNELS[task.op](self.native, task)

    def _contiguous_first(self, task: Task, which: tuple[int, ...]) -> Step:
        """The step after contiguous copies of the operands ``which``."""
        operands = list(task.operands)
        sources = list(range(len(operands)))
        parts: list[Part] = []
        for k in which:
            if not operands[k].is_contiguous:
                copy = movement.prepare_contiguous(self.native, operands[k])
                sources[k] = scratch(len(parts))
                parts.append(Part(copy, (k,), sources[k]))
                operands[k] = copy.result
        if not parts:
            raise AssertionError(f"{task.op} asks for contiguous operands and has them")
        return self._sequence(parts, task._replace(operands=tuple(operands)), sources)

    def _through_float32(self, task: Task) -> Step:
        """The step with bfloat16 operands widened, and the result rounded once."""
        operands = list(task.operands)
        sources = list(range(len(operands)))
        parts: list[Part] = []
        for k, x in enumerate(operands):
            if x.dtype is bfloat16 or task.op == "cast":
                widened = self._prepare(Task("cast", (float32,), (x,), x.shape, float32))
                assert not isinstance(widened, ViewStep)
                sources[k] = scratch(len(parts))
                parts.append(Part(widened, (k,), sources[k]))
                operands[k] = widened.result
        if task.op == "cast" or task.dtype is not bfloat16:
            return self._sequence(parts, task._replace(operands=tuple(operands)), sources)
        inner = self._prepare(task._replace(operands=tuple(operands), dtype=float32))
        assert not isinstance(inner, ViewStep)
        between = scratch(len(parts))
        parts.append(Part(inner, sources, between))
        rounded = Task("cast", (bfloat16,), (inner.result,), task.shape, bfloat16, task.row_major)
        return self._sequence(parts, rounded, [between])

    def _sequence(self, parts: Sequence[Part], task: Task, sources: Sequence[int]) -> Step:
        """``parts``, each into a block of scratch of its own, and then ``task`` on ``sources``."""
        step = self._prepare(task)
        assert not isinstance(step, ViewStep)
        blocks = [part.step.nbytes for part in parts]
        return sequence(self.native, [*parts, Part(step, sources, RESULT)], blocks)


def _needs_float32(task: Task) -> bool:
    dtype = task.operands[0].dtype if task.operands else task.dtype
    if task.op == "cast":
        return elementwise.bfloat16_pair_size(dtype, task.dtype) == 8
    return task.op in _FLOAT32_INSIDE and bfloat16 in (dtype, task.dtype)


_KERNELS: dict[str, Callable[[Native, Task], Prepared]] = {
    "iota": movement.prepare_iota,
    "reshape": movement.prepare_reshape,
    "concat": movement.prepare_concat,
    "pad": movement.prepare_pad,
    "dot": dot.prepare,
    "gather": index.prepare_gather,
    "scatter": index.prepare_scatter,
    "reduce": reduction.prepare_reduce,
    "argreduce": reduction.prepare_argreduce,
    "scan": reduction.prepare_scan,
    "random_bits": random.prepare_random_bits,
}
