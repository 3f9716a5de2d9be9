"""Bindings: a blueprint at given sizes: its launches in waves, everything's place, and the one call that runs
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from struct import Struct
from typing import Any, cast

from engine.compiler.access import Access
from engine.compiler.blueprint import Blueprint
from engine.compiler.lower import Lowered
from engine.compiler.memory import ALIGNMENT, Block, Takeover, place
from engine.compiler.nested import cond_items, loop_items, refused
from engine.compiler.products import chain, fused_dot
from engine.compiler.sized import Sized, Sizes, at_sizes
from engine.compiler.steps import Body, ChainStep, CondStep, DotStep, FusedStep, LoopStep, SingleStep, Step
from engine.compiler.table import ARENA, FIRST_BASE, NULL_BASE, Buffer, Item, Probe, Table, Wave, waves_of
from engine.core.dim import Dim, Shape, evaluate
from engine.core.node import Node
from engine.core.opdef import OPS
from engine.devices.array import Array, Storage, contiguous_strides, ffi
from engine.devices.cpu.device import CpuDevice
from engine.devices.cpu.layout import Operand, Task
from engine.devices.cpu.step import Call, Launches, Ref

FLOPS_AN_ADDITION = 16  # of a dot, in the time of an addition in memory-bound kernels


@dataclass(frozen=True, slots=True)
class Shown:
    """How a target is seen after a run: a view of an output, an input or a lasting array."""

    source: int | Array
    is_input: bool
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    node: Node


class Binding:
    """One blueprint at one choice of sizes. Only read after it is made, so any number of threads may run it.

    A run's bases are null, its arena, the inputs' addresses, those of ``output_bytes`` and of the states.
    ``arena_bytes`` is what one run needs beside inputs and outputs, its first ``pointer_bytes`` for the call
    itself; ``buffer_bytes`` is the sum of what lies there.
    """

    def __init__(self, blueprint: Blueprint, inputs: Sequence[Node], device: CpuDevice, sizes: Sizes) -> None:
        self.blueprint = blueprint
        self.inputs = tuple(inputs)
        self.sizes = dict(sizes)
        self.device = device
        self.input_shapes = [self.shape(node.shape) for node in inputs]
        self._forms = [
            (shape, contiguous_strides(shape), node.dtype)
            for shape, node in zip(self.input_shapes, inputs, strict=True)
        ]
        self.blocks: dict[Node, Block] = {}
        self._kept: list[Any] = []
        self._lasting: dict[Node, Array] = {}
        for k, node in enumerate(inputs):
            self.blocks[node] = Block(self.nbytes(node), FIRST_BASE + k)
        self._place_results(inputs)
        self._launched: dict[int, Launches] = {}
        printed = any(not isinstance(step, SingleStep) for step in blueprint.steps)
        if printed and not device.native.knows(blueprint.text):
            self._build()
        items: list[Item] = []
        ran = False
        for number, step in enumerate(blueprint.steps):
            if not step.fixed and not ran:
                self._run_once(items)
                items, ran = [], True
            items += self.items_of(step, number)
        if not ran:
            self._run_once(items)
            items = []
        self.items = items
        self.waves = waves_of(items)
        self.takeovers = self._takeovers()
        pointers = 8 * sum(len(item.buffers) for item in items)
        self.pointer_bytes = max(-(-pointers // ALIGNMENT), 1) * ALIGNMENT
        arena = self.arena_blocks()
        self.arena_bytes = place(arena, self.takeovers, self.pointer_bytes)
        self.buffer_bytes = sum(block.nbytes for block in arena)
        self.table = Table(self.waves)
        self.bases = FIRST_BASE + len(inputs) + len(self.output_nodes) + len(blueprint.states)
        self._pack = Struct(f"={self.bases}q").pack
        self._start = device.native.run_plan
        self.shown = [self._shown(access) for access in blueprint.results]

    # ---- running

    def matching(
        self,
        feeds: Mapping[Node, Array] | Mapping[str, Array] | Mapping[Node | str, Array],
        numbers: Mapping[Node | str, int],
    ) -> list[Array] | None:
        """The arrays by number where all fit this binding as they are; else None, for a closer look."""
        forms = self._forms
        arrays: list[Any] = [None] * len(forms)
        for key, x in feeds.items():
            number = numbers.get(key)
            if number is None or (x.shape, x.strides, x.dtype) != forms[number]:
                return None
            arrays[number] = x
        return arrays if len(feeds) == len(forms) and None not in arrays else None

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The targets, then the new values of the states, for contiguous ``arrays`` of the inputs."""
        outputs = [Storage(nbytes) for nbytes in self.output_bytes]
        news = [Storage(nbytes) for nbytes in self.state_bytes]
        addresses = [x.storage.address + x.offset * x.dtype.size for x in arrays]
        addresses += [storage.address for storage in outputs]
        addresses += [storage.address for storage in news]
        self.execute(addresses)
        results = self.show(arrays, outputs)
        if not news:
            return results
        for access, storage, k in zip(self.blueprint.states, news, self.unchanged, strict=True):
            node = access.source
            shape = self.shape(node.shape)
            own = Array(storage, 0, shape, contiguous_strides(shape), node.dtype)
            results.append(own if k is None else arrays[k])
        return results

    def show(self, arrays: Sequence[Array], outputs: Sequence[Storage]) -> list[Array]:
        """The targets after a run with these inputs and outputs."""
        results = []
        for own in self.shown:
            source = own.source
            if isinstance(source, Array):
                storage, offset = source.storage, source.offset
            elif own.is_input:
                storage, offset = arrays[source].storage, arrays[source].offset
            else:
                storage, offset = outputs[source], 0
            results.append(Array(storage, offset + own.offset, own.shape, own.strides, own.node.dtype))
        return results

    def execute(self, addresses: Sequence[int], table: Table | None = None, times: Any = ffi.NULL) -> None:
        """Runs the launches. Raises BoundsError where a checked index is out of range."""
        arena = Storage(self.arena_bytes)
        bases = self._pack(0, arena.address, *addresses)
        table = self.table if table is None else table
        wave = self._start(table.plan, bases, times)
        if wave >= 0:
            raise self.refused(table.waves[wave], [0, arena.address, *addresses])

    def refused(self, wave: Wave, bases: Sequence[int]) -> Exception:
        """What ended a run with these bases in this wave."""
        probe = wave.probe
        if wave.nested is not None:
            block, offset = wave.items[0].buffers[0]
            return refused(wave.nested, bases[block.base] + block.offset + offset)
        assert probe is not None
        step = self.blueprint.steps[probe.step]
        assert isinstance(step, SingleStep)
        block, offset = probe.buffer
        words = ffi.cast("int64_t *", bases[block.base] + block.offset + offset)
        word = next(word for word in ffi.unpack(words, probe.check.words) if word >= 0)
        operands = []
        for access in step.accesses:
            operand, (block, offset) = self.operand(access)
            memory = cast("Storage", _Memory(bases[block.base] + block.offset + offset, operand))
            operands.append(Array(memory, 0, *operand))
        return probe.check.explain(word, operands)

    # ---- sizes

    def size(self, dim: Dim) -> int:
        return dim if isinstance(dim, int) else evaluate(dim, self.sizes)

    def shape(self, shape: Shape) -> tuple[int, ...]:
        return tuple([dim if isinstance(dim, int) else evaluate(dim, self.sizes) for dim in shape])

    def nbytes(self, node: Node) -> int:
        return prod(self.shape(node.shape)) * node.dtype.size

    # ---- places

    def _place_results(self, inputs: Sequence[Node]) -> None:
        """Bases for what is computed for the caller: each target's source once, and each state."""
        computed = {node for step in self.blueprint.steps if not step.fixed for node in step.writes}
        known = {node: k for k, node in enumerate(inputs)}
        self.output_nodes: list[Node] = []
        for access in self.blueprint.results:
            node = access.source
            if node in computed and node not in self.output_nodes:
                self.output_nodes.append(node)
        self.output_bytes = [self.nbytes(node) for node in self.output_nodes]
        states = [access.source for access in self.blueprint.states]
        self.state_bytes = [self.nbytes(node) for node in states]
        self.unchanged = [known.get(node) for node in states]
        first = FIRST_BASE + len(inputs)
        for k, node in enumerate([*self.output_nodes, *states]):
            if node not in known:
                self.blocks[node] = Block(self.nbytes(node), first + k)
        self._inputs = known

    def _shown(self, access: Access) -> Shown:
        node = access.source
        place = self.size(access.offset), self.shape(access.shape), self.shape(access.strides), node
        if node in self._inputs:
            return Shown(self._inputs[node], True, *place)
        if node in self.output_nodes:
            return Shown(self.output_nodes.index(node), False, *place)
        return Shown(self._last(node), False, *place)

    def _last(self, node: Node) -> Array:
        """The lasting array of a constant, of a leaf that is no input, or of a fixed step's result."""
        found = self._lasting.get(node)
        if found is None:
            if node.op == "constant":
                found = Array.from_bytes(node.attrs[0], (), node.dtype)
            elif node.value is None:
                raise KeyError(f"{node} is neither an input of the plan nor has a value")
            else:
                found = self.device.contiguous(node.value)
            self._lasting[node] = found
        return found

    def block(self, node: Node) -> Block:
        """Where a node's buffer lies."""
        found = self.blocks.get(node)
        if found is None:
            array = self._last(node)
            found = self.blocks[node] = Block(array.nbytes, NULL_BASE, array.address)
        return found

    def arena_blocks(self) -> list[Block]:
        """The buffers that lie in the arena, in the order of the launches."""
        found = {block: None for item in self.items for block, _ in item.buffers if block.base == ARENA}
        return list(found)

    def fresh(self, nbytes: int, fixed: bool) -> Block:
        if not fixed:
            return Block(nbytes, ARENA)
        storage = Storage(nbytes)
        self._kept.append(storage)
        return Block(nbytes, NULL_BASE, storage.address)

    def write(self, node: Node, fixed: bool, nbytes: int | None = None) -> Block:
        """The place of what a step computes."""
        if node not in self.blocks:
            size = self.nbytes(node) if nbytes is None else nbytes
            if fixed and nbytes is None:
                array = self._lasting[node] = Array.empty(self.shape(node.shape), node.dtype)
                self.blocks[node] = Block(size, NULL_BASE, array.address)
            else:
                self.blocks[node] = self.fresh(size, fixed)
        return self.blocks[node]

    def _takeovers(self) -> list[Takeover]:
        """What may be written where its operand lies, no other launch of the wave using that."""
        users: dict[tuple[Block, int], int] = {}
        for number, wave in enumerate(self.waves):
            for item in wave.items:
                for block in {block for block, _ in item.buffers}:
                    users[block, number] = users.get((block, number), 0) + 1
        found = []
        for step in self.blueprint.steps:
            if isinstance(step, FusedStep | DotStep) and not step.fixed:
                for old, new in step.takeovers:
                    former, heir = self.block(old), self.block(new)
                    in_arena = former.base == heir.base == ARENA
                    if in_arena and former.last == heir.first and users.get((former, former.last)) == 1:
                        found.append(Takeover(former, heir))
        return found

    # ---- launches

    def _run_once(self, items: list[Item]) -> None:
        """Runs the fixed steps, whose results last as long as this binding."""
        waves = waves_of(items)
        if waves:
            table = Table(waves)
            pointers = Storage(8 * sum(len(item.buffers) for item in items))
            bases = Struct("=2q").pack(0, pointers.address)
            wave = self.device.native.run_plan(table.plan, bases, ffi.NULL)
            if wave >= 0:
                raise self.refused(table.waves[wave], [0, pointers.address])

    def items_of(self, step: Step, number: int) -> list[Item]:
        if isinstance(step, DotStep):
            return fused_dot(self, step, number)
        if isinstance(step, ChainStep):
            return chain(self, step, number)
        if isinstance(step, LoopStep):
            return loop_items(self, step, number)
        if isinstance(step, CondStep):
            return cond_items(self, step, number)
        return self._fused(step, number) if isinstance(step, FusedStep) else self._single(step, number)

    def inner(self, body: Body) -> Binding:
        """The binding of a loop's body, or of a branch, at the same sizes."""
        return Binding(body.blueprint, body.inputs, self.device, self.sizes)

    def _fused(self, step: FusedStep, number: int) -> list[Item]:
        lowered = step.lowered
        sized = at_sizes(lowered, self.sizes)
        for node in lowered.outputs:
            self.write(node, step.fixed)
        for node in lowered.partials:
            self.write(node, step.fixed, sized.partial * node.dtype.size)
        if not sized.chunks:
            return []
        buffers = self.buffers_of(lowered, sized, sized.chunks, step.fixed)
        kernel = self.device.native.symbol(self.blueprint.text, step.name)
        call = Call(kernel, sized.words, sized.chunks)
        return [Item(call, buffers, number, step.level, 0, lowered.cost * sized.elements)]

    def buffers_of(self, lowered: Lowered, sized: Sized, chunks: int, fixed: bool) -> list[Buffer]:
        """What a kernel reads and writes, with scratch for that many chunks."""
        scratch = iter(sized.scratch)
        buffers: list[Buffer] = []
        for layout, offset in zip(lowered.layouts, sized.offsets, strict=True):
            if layout.source is None:
                buffers.append((self.fresh(next(scratch) // max(sized.chunks, 1) * chunks, fixed), 0))
            else:
                buffers.append((self.block(layout.source), offset))
        return buffers

    def _read_as(self, access: Access) -> Operand:
        return Operand(self.shape(access.shape), self.shape(access.strides), access.source.dtype)

    def operand(self, access: Access) -> tuple[Operand, tuple[Block, int]]:
        operand = self._read_as(access)
        return operand, (self.block(access.source), self.size(access.offset) * operand.dtype.size)

    def _single(self, step: SingleStep, number: int) -> list[Item]:
        node = step.node
        read = [self.operand(access) for access in step.accesses]
        operands = tuple([operand for operand, _ in read])
        launched = self._launched.pop(number, None) or self._launches(node, operands)
        result = self.write(node, step.fixed)
        places = [place for _, place in read]
        places += [(self.fresh(nbytes, step.fixed), 0) for nbytes in reversed(launched.scratch)]
        places.append((result, 0))
        cost = self.cost_of(node, operands)

        def buffer(ref: Ref) -> tuple[Block, int]:
            block, offset = places[ref.which]
            return block, offset + ref.offset

        items = [
            Item(launch.call, [buffer(ref) for ref in launch.buffers], number, step.level, launch.stage, cost)
            for launch in launched.launches
            if launch.call.chunks
        ]
        for check in launched.checks:
            probe = Probe(check, buffer(check.buffer), number)
            items.append(Item(None, [probe.buffer], number, step.level, check.stage, 0, probe))
        return items

    def _launches(self, node: Node, operands: tuple[Operand, ...]) -> Launches:
        attrs = tuple([self.shape(attr) if _is_shape(attr) else attr for attr in node.attrs])
        task = Task(node.op, attrs, operands, self.shape(node.shape), node.dtype, row_major=True)
        return self.device.launches(task)

    def _build(self) -> None:
        """Builds the kernels of single steps while another thread builds those of the plan."""
        native, text = self.device.native, self.blueprint.text
        with ThreadPoolExecutor(1) as pool:
            built = pool.submit(native.kernels.library, text, native.toolchain)
            for number, step in enumerate(self.blueprint.steps):
                if isinstance(step, SingleStep):
                    operands = tuple([self._read_as(access) for access in step.accesses])
                    self._launched[number] = self._launches(step.node, operands)
            built.result()

    def cost_of(self, node: Node, operands: Sequence[Operand]) -> int:
        """About how long a node takes, in additions."""
        elements = max([prod(self.shape(node.shape)), *[prod(x.shape) for x in operands]])
        if node.op == "dot":
            return prod(self.shape(node.shape)) * operands[0].shape[-1] * 2 // FLOPS_AN_ADDITION
        return elements * max(OPS[node.op].cost, 1)


class _Memory:
    """Memory of a run, for reading what it refused."""

    def __init__(self, address: int, operand: Operand) -> None:
        last = sum((size - 1) * stride for size, stride in zip(operand.shape, operand.strides, strict=True))
        self._view = memoryview(ffi.buffer(ffi.cast("char *", address), (last + 1) * operand.dtype.size))

    def buffer(self) -> memoryview:
        return self._view


def _is_shape(attr: Any) -> bool:
    return isinstance(attr, tuple) and all(not isinstance(item, tuple) for item in attr)
