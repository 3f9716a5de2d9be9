"""Loops and conditions that a plan runs as plans within it: one run of the body's plan a turn, in C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from engine.compiler.access import Access
from engine.compiler.cluster import Hosted
from engine.compiler.memory import ALIGNMENT, Block
from engine.compiler.steps import Body, Carry, CondStep, LoopStep
from engine.compiler.table import NULL_BASE, Buffer, Item, Nested
from engine.core import build as b
from engine.core.lanes import together
from engine.core.node import Node
from engine.core.region import Region, loop_of, replaced
from engine.devices.array import ffi
from engine.devices.cpu.layout import Task

if TYPE_CHECKING:
    from engine.compiler.binding import Binding
    from engine.compiler.blueprint import Blueprint

Draw: TypeAlias = Callable[[Sequence[Node], Sequence[tuple[Node, Node]]], "Blueprint"]

_UNBOUNDED = 2**63 - 1  # turns
_POINTER = 8  # bytes
_HEAD = 64  # bytes after a body's bases: turn, stop flag, and the wave that refused


# ---- drawing


def draw_nested(step: Hosted, draw: Draw) -> LoopStep | CondStep:
    """The step of a loop or a condition, with the blueprint of its body or branches."""
    wanted = {item.attrs[0]: item for item in step.items}
    return _drawn_cond(step, wanted, draw) if step.node.op == "cond" else _drawn_loop(step, wanted, draw)


def _drawn_loop(step: Hosted, wanted: dict[int, Node], draw: Draw) -> LoopStep:
    loop = loop_of(step.node)
    own = loop.body
    body = together(own) if own.lanes else own
    accesses = list(step.accesses)
    count = accesses.pop(0) if loop.count is not None else None
    initial: list[Access | None] = [*accesses[: len(own.carries)]]
    initial += [None] * (len(body.carries) - len(own.carries))
    results = [wanted.get(1 + k) for k in range(len(own.carries))]
    if own.lanes:
        results += [None, wanted.get(0)]
    first = 1 + len(own.carries)
    slices = [k for k in range(len(own.slices)) if first + k in wanted]
    held = [_core(access) for access in accesses[len(own.carries) :]]
    params, values = _spread(body.constants, held)
    outs = (*body.next, *[body.slices[k] for k in slices], *([] if body.stop is None else [body.stop]))
    return LoopStep(
        step.level,
        step.fixed,
        count,
        tuple(map(Carry, body.carries, initial, results)),
        tuple(held),
        tuple([wanted[first + k] for k in slices]),
        None if own.lanes else wanted.get(0),
        loop.limit,
        body.stop is not None,
        _body((body.turn, *body.carries, *params), replaced(outs, values), draw),
    )


def _drawn_cond(step: Hosted, wanted: dict[int, Node], draw: Draw) -> CondStep:
    pred, *operands = step.accesses
    held = [_core(access) for access in operands]

    def branch(region: Region) -> Body:
        params, values = _spread(region.params, held)
        return _body(params, replaced([region.outs[k] for k in wanted], values), draw)

    then, otherwise = map(branch, step.node.attrs)
    return CondStep(step.level, step.fixed, _core(pred), tuple(held), tuple(wanted.values()), then, otherwise)


def _body(inputs: Sequence[Node], outs: Sequence[Node], draw: Draw) -> Body:
    """Results are drawn as states, so that each has a buffer of its own; what they replace is not there."""
    return Body(tuple(inputs), draw((), [(b.input(out.shape, out.dtype), out) for out in outs]))


def _core(access: Access) -> Access:
    """What is read, each element once."""
    shape = tuple(
        [1 if stride == 0 else size for size, stride in zip(access.shape, access.strides, strict=True)]
    )
    return Access(access.source, shape, access.offset, access.strides)


def _spread(params: Sequence[Node], cores: Sequence[Access]) -> tuple[list[Node], dict[Node, Node]]:
    """Parameters for what is held, and what each of ``params`` is made of them."""
    small: list[Node] = []
    values: dict[Node, Node] = {}
    for param, core in zip(params, cores, strict=True):
        if core.shape == param.shape:
            small.append(param)
        else:
            small.append(b.input(core.shape, param.dtype))
            values[param] = b.broadcast(small[-1], param.shape)
    return small, values


# ---- binding


def loop_items(binding: Binding, step: LoopStep, number: int) -> list[Item]:
    """Copies of what is not laid out row by row, and the loop itself."""
    inner = binding.inner(step.body)
    place = _Places(binding, step, number)
    buffers = [place.bases(inner.bases), place.scratch(inner.arena_bytes)]
    buffers.append(place.scratch(8) if step.turns is None else place.result(step.turns))
    if step.count is not None:
        buffers.append(place.dense(step.count))
    buffers += [place.dense(access) for access in step.constants]
    sizes = []
    for carry in step.carries:
        nbytes = binding.nbytes(carry.param)
        buffers.append((Block(0, NULL_BASE), 0) if carry.initial is None else place.dense(carry.initial))
        buffers.append(place.scratch(nbytes) if carry.result is None else place.result(carry.result))
        buffers.append(place.scratch(nbytes))
        sizes.append(nbytes)
    buffers += [place.result(stack) for stack in step.stacks]
    limit = _UNBOUNDED if step.limit is None else binding.size(step.limit)
    sizes += [prod(binding.shape(stack.shape[1:])) * stack.dtype.size for stack in step.stacks]
    counts = [len(step.carries), len(step.constants), len(step.stacks)]
    words = [inner.table.address, limit, step.count is not None, step.stops, *counts, *sizes]
    return place.items(Nested("loop", tuple(map(int, words)), (inner,)), buffers)


def cond_items(binding: Binding, step: CondStep, number: int) -> list[Item]:
    inners = binding.inner(step.then), binding.inner(step.otherwise)
    place = _Places(binding, step, number)
    buffers = [
        place.bases(inners[0].bases),
        place.scratch(max(inner.arena_bytes for inner in inners)),
        place.dense(step.pred),
        *[place.dense(access) for access in step.operands],
        *[place.result(node) for node in step.results],
    ]
    words = [*[inner.table.address for inner in inners], len(step.operands) + len(step.results)]
    return place.items(Nested("cond", tuple(words), inners), buffers)


class _Places:
    """The buffers of one nested step, and the copies that come before it."""

    def __init__(self, binding: Binding, step: LoopStep | CondStep, number: int) -> None:
        self._binding = binding
        self._step = step
        self._number = number
        self._copies: list[Item] = []

    def bases(self, count: int) -> Buffer:
        """Room for a body's bases and what follows them."""
        return self.scratch(_POINTER * count + _HEAD)

    def scratch(self, nbytes: int) -> Buffer:
        return self._binding.fresh(max(nbytes, ALIGNMENT), self._step.fixed), 0

    def result(self, node: Node) -> Buffer:
        return self._binding.write(node, self._step.fixed), 0

    def dense(self, access: Access) -> Buffer:
        """Where the elements lie row by row: in a copy if they don't already."""
        operand, place = self._binding.operand(access)
        if operand.is_contiguous:
            return place
        task = Task("keep", (), (operand,), operand.shape, operand.dtype, row_major=True)
        launches = self._binding.device.launches(task)
        target = self.scratch(prod(operand.shape) * operand.dtype.size)
        for launch in launches.launches:
            buffers = [((place, target)[ref.which], ref.offset) for ref in launch.buffers]
            moved = [(block, offset + more) for (block, offset), more in buffers]
            cost = prod(operand.shape)
            self._copies.append(Item(launch.call, moved, self._number, self._step.level, launch.stage, cost))
        return target

    def items(self, nested: Nested, buffers: Sequence[Buffer]) -> list[Item]:
        stage = 1 + max([item.stage for item in self._copies], default=-1)
        own = Item(None, buffers, self._number, self._step.level, stage, 0, nested=nested)
        return [*self._copies, own]


# ---- what ends a run


def refused(nested: Nested, address: int) -> Exception:
    """Why a nested plan, whose bases lie at ``address``, has ended."""
    count = nested.bindings[0].bases
    *bases, which, number = ffi.unpack(ffi.cast("int64_t *", address), count + 2)
    binding = nested.bindings[which if nested.kind == "cond" else 0]
    return binding.refused(binding.table.waves[number], bases)
