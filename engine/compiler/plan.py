"""Plans: a graph turned into few kernels, bound to sizes when they are known, and run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from struct import pack
from typing import Any

from engine.autodiff.merge import merge
from engine.compiler.access import Access
from engine.compiler.cluster import Single, partial_elements
from engine.compiler.fuse import Fusion
from engine.compiler.lower import Layout, Lowered, lower
from engine.compiler.simplify import simplify
from engine.core.dim import Dim, Shape, evaluate
from engine.core.node import Node
from engine.devices.array import Array, Storage, ffi
from engine.devices.cpu.device import CpuDevice
from engine.emit.kernel import HEAD_WORDS, STRIP, print_kernel

CHUNK_COST = 32768  # additions a chunk
CHUNK_LEAST = 1024  # elements

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FusedStep:
    """A printed kernel and its buffers."""

    lowered: Lowered
    name: str
    fixed: bool


@dataclass(frozen=True, slots=True)
class SingleStep:
    """A node on the kernel of the per-node executor."""

    node: Node
    reads: tuple[Access, ...]
    fixed: bool


class Plan:
    """``targets`` as a function of ``inputs``, in few kernels with the bits of one node a kernel.

    A plan serves every size of its symbols; ``bind`` makes what belongs to one choice of sizes.
    """

    def __init__(self, inputs: Sequence[Node], targets: Sequence[Node], device: CpuDevice) -> None:
        self.inputs = tuple(inputs)
        self.device = device
        targets = simplify(targets)
        order, leaders = merge(targets)
        self.fusion = Fusion(order, leaders, targets)
        self.results = tuple([self.fusion.read(target) for target in targets])
        stored = self._stored()
        self.steps: list[FusedStep | SingleStep] = []
        names: dict[Any, str] = {}
        texts: list[str] = []
        for step in self.fusion.steps:
            if isinstance(step, Single):
                self.steps.append(SingleStep(step.node, tuple(step.accesses), step.fixed))
                continue
            lowered = lower(step, self.fusion, stored)
            name = names.get(lowered.kernel)
            if name is None:
                name = names[lowered.kernel] = f"kernel_{len(names)}"
                texts.append(print_kernel(lowered.kernel, name))
            self.steps.append(FusedStep(lowered, name, step.fixed))
        self.text = '#include "fused.h"\n\n' + "\n".join(texts)
        self.kernels = len(names)

    def _stored(self) -> set[Node]:
        """Members of clusters that someone outside their kernel reads."""
        home = self.fusion.home
        stored = {access.source for access in self.results}
        for step in self.fusion.steps:
            stored.update(access.source for access in step.accesses if home.get(access.source) is not step)
        return stored

    def bind(self, sizes: Sizes) -> Binding:
        """Buffers and calls for these sizes of the symbols."""
        return Binding(self, sizes)


class Binding:
    """One plan at one choice of sizes. ``arrays`` of ``plan.inputs`` are written before ``run``."""

    def __init__(self, plan: Plan, sizes: Sizes) -> None:
        self._plan = plan
        self._sizes = sizes
        self.arrays: dict[Node, Array] = {node: self._zeros(node) for node in plan.inputs}
        self._kept: list[Any] = []
        self._calls: list[Callable[[], None]] = []
        for step in plan.steps:
            calls = self._fused(step) if isinstance(step, FusedStep) else self._single(step)
            if step.fixed:
                for call in calls:
                    call()
            else:
                self._calls += calls
        self.outputs = [self._view(access) for access in plan.results]

    def run(self) -> None:
        """Computes the outputs from what the inputs hold."""
        for call in self._calls:
            call()

    def _zeros(self, node: Node) -> Array:
        """A buffer; 0 is an index that binding may read safely."""
        shape = self._shape(node.shape)
        return Array.from_bytes(bytes(prod(shape) * node.dtype.size), shape, node.dtype)

    def _size(self, dim: Dim) -> int:
        return evaluate(dim, self._sizes)

    def _shape(self, shape: Shape) -> tuple[int, ...]:
        return tuple([self._size(dim) for dim in shape])

    def _array(self, node: Node) -> Array:
        found = self.arrays.get(node)
        if found is None:
            if node.op == "constant":
                found = Array.from_bytes(node.attrs[0], (), node.dtype)
            elif node.value is not None:
                found = node.value
            else:
                raise KeyError(f"{node} has no buffer")
            self.arrays[node] = found
        return found

    def _view(self, access: Access) -> Array:
        x = self._array(access.source)
        shape, strides = self._shape(access.shape), self._shape(access.strides)
        return Array(x.storage, x.offset + self._size(access.offset), shape, strides, x.dtype)

    def _single(self, step: SingleStep) -> list[Callable[[], None]]:
        node, device = step.node, self._plan.device
        operands = [self._view(access) for access in step.reads]
        shape = self._shape(node.shape)
        attrs = tuple([self._shape(attr) if _is_shape(attr) else attr for attr in node.attrs])
        result, call = device.bind(node.op, attrs, operands, shape, node.dtype)
        calls = [call]
        if not result.is_contiguous:
            self._kept.append(result)
            result, copy = device.bind("concat", (0,), [result], shape, node.dtype)
            calls.append(copy)
        self.arrays[node] = result
        return calls

    def _fused(self, step: FusedStep) -> list[Callable[[], None]]:
        lowered = step.lowered
        outer = self._shape(lowered.outer)
        rows, n = prod(outer), self._size(lowered.inner)
        for node in lowered.outputs:
            self.arrays[node] = self._zeros(node)
        for node in lowered.partials:
            self.arrays[node] = Array.empty((partial_elements(rows, n),), node.dtype)
        down, across, chunks = _chunks(lowered, rows, n)
        words = [rows, n, down, across, *outer]
        addresses = []
        for buffer, layout in zip(lowered.kernel.buffers, lowered.layouts, strict=True):
            words += [*self._shape(layout.outer), self._size(layout.inner), _padded(n) if buffer.scratch else 0]
            for window in layout.windows:
                words += self._shape(window)
            addresses.append(self._address(layout, buffer.dtype.size, chunks * _padded(n)))
        if not chunks:
            return []
        dims = ffi.new("int64_t[]", words)
        self._kept.append(dims)
        native = self._plan.device.native
        kernel = native.symbol(self._plan.text, step.name)
        packed = pack(f"={3 + len(addresses)}q", kernel, int(ffi.cast("intptr_t", dims)), chunks, *addresses)
        return [partial(native.start, packed)]

    def _address(self, layout: Layout, size: int, scratch: int) -> int:
        if layout.source is None:
            storage = Storage(scratch * size)
            self._kept.append(storage)
            return storage.address
        x = self._array(layout.source)
        return x.address + self._size(layout.offset) * size


def _chunks(lowered: Lowered, rows: int, n: int) -> tuple[int, int, int]:
    """Rows and columns a chunk, and how many chunks; they follow from sizes alone."""
    if lowered.kernel.kind in ("columns", "finish"):
        return rows, STRIP, -(-n // STRIP)
    elements = max(CHUNK_LEAST, CHUNK_COST // max(lowered.cost, 1))
    if lowered.kernel.kind == "lanes":
        lanes = min(rows, 64)
        down = max(1, min(lanes, elements * lanes // max(rows * n, 1)))
        return down, max(n, 1), -(-lanes // down)
    if lowered.kernel.kind == "rows" or n <= elements:
        down = max(1, elements // max(n, 1))
        across = max(n, 1)
    else:
        down, across = 1, elements // STRIP * STRIP
    strips = 1 if lowered.kernel.kind == "rows" else max(1, -(-n // across))
    return down, across, -(-rows // down) * strips


def _padded(n: int) -> int:
    return -(-n // STRIP) * STRIP


def _is_shape(attr: Any) -> bool:
    return isinstance(attr, tuple) and all(not isinstance(item, tuple) for item in attr)
