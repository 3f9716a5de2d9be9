"""Launches of products that are fused with kernels: epilogues, and chains over units of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from engine.compiler.access import Access
from engine.compiler.chains import per_unit, sources_of
from engine.compiler.memory import ALIGNMENT, Block
from engine.compiler.sized import CHUNK_COST, at_sizes
from engine.compiler.steps import ChainStep, DotStep, FusedStep, Part
from engine.compiler.table import NULL_BASE, Buffer, Item
from engine.core.node import Node
from engine.devices.cpu.dot import prepare_fused, prepare_products
from engine.devices.cpu.layout import Task
from engine.devices.cpu.step import Call

if TYPE_CHECKING:
    from engine.compiler.binding import Binding

FEW_CHUNKS = 4  # fewer would leave threads without work
LONG_UNIT = 64 * CHUNK_COST  # of a chain
MANY_CHUNKS = 32
OWN_BYTES = 1 << 18  # GM_OWN_BYTES


def fused_dot(binding: Binding, step: DotStep, number: int) -> list[Item]:
    """A product with its epilogue; one after the other where chunks of whole rows would be too few."""
    for node in step.writes:
        binding.write(node, step.fixed)
    task, places = _task(binding, step.dot, step.accesses)
    if not prod(task.shape):
        return []
    lowered, native = step.lowered, binding.device.native
    sized = at_sizes(lowered, binding.sizes)
    product = prepare_fused(native, task, step.whole_rows)
    out = [(binding.block(step.into), 0), *places]
    costs = binding.cost_of(step.dot, task.operands), lowered.cost * sized.elements
    alone = binding.device.launches(task).launches[0].call
    if product.chunks < min(FEW_CHUNKS, alone.chunks):
        buffers = binding.buffers_of(lowered, sized, sized.chunks, step.fixed)
        after = Call(native.symbol(binding.blueprint.text, step.kernel), sized.words, sized.chunks)
        return [
            Item(alone, out, number, step.level, 0, costs[0]),
            Item(after, buffers, number, step.level, 1, costs[1]),
        ]
    buffers = [*out, *binding.buffers_of(lowered, sized, product.chunks, step.fixed)]
    kernel = native.symbol(binding.blueprint.text, step.name)
    call = Call(kernel, [product.kernel, *product.words, *sized.words], product.chunks)
    return [Item(call, buffers, number, step.level, 0, sum(costs))]


def chain(binding: Binding, step: ChainStep, number: int) -> list[Item]:
    """One launch over the units; where these are few and long, one for each part."""
    alone = [item for part in step.parts for item in binding.items_of(part, number)]
    units, cost = binding.size(step.units), sum(item.cost for item in alone)
    if len(alone) < len(step.parts) or (units < FEW_CHUNKS and cost >= units * LONG_UNIT):
        return [replace(item, stage=stage) for stage, item in enumerate(alone)]
    each = -(-units // max(1, min(units, MANY_CHUNKS, cost // CHUNK_COST)))
    chunks = -(-units // each)
    slots = _slots(binding, step, units)
    head, places, words, buffers = [units, each], list[int](), list[int](), list[Buffer]()
    for part in step.parts:
        address, own_words, own_buffers = _part(binding, part, chunks)
        head += [address, binding.size(per_unit(part, step.units))]
        words += own_words
        for source, buffer in zip(sources_of(part), own_buffers, strict=True):
            if source is not None and source in slots:
                places += [slots[source] + buffer[1], binding.nbytes(source) // units]
                buffers.append((Block(0, NULL_BASE), 0))
                continue
            buffers.append(buffer)
            if source in step.inner:
                places += [0, 0]
    kernel = binding.device.native.symbol(binding.blueprint.text, step.name)
    return [Item(Call(kernel, [*head, *places, *words], chunks), buffers, number, step.level, 0, cost)]


def _part(binding: Binding, part: Part, chunks: int) -> tuple[int, Sequence[int], Sequence[Buffer]]:
    """Address (of products), words and buffers of a chain's part."""
    if isinstance(part, FusedStep):
        sized = at_sizes(part.lowered, binding.sizes)
        return 0, sized.words, binding.buffers_of(part.lowered, sized, chunks, False)
    task, places = _task(binding, part.node, part.accesses)
    product = prepare_products(binding.device.native, task)
    return product.kernel, product.words, [(binding.block(part.node), 0), *places]


def _task(binding: Binding, dot: Node, accesses: Sequence[Access]) -> tuple[Task, list[Buffer]]:
    read = [binding.operand(access) for access in accesses]
    operands = tuple([operand for operand, _ in read])
    task = Task("dot", (), operands, binding.shape(dot.shape), dot.dtype, row_major=True)
    return task, [place for _, place in read]


def _slots(binding: Binding, step: ChainStep, units: int) -> dict[Node, int]:
    """Where one unit of what only parts read lies on the stack, as far as there is room."""
    slots: dict[Node, int] = {}
    total = 0
    for node in step.inner:
        nbytes = -(-binding.nbytes(node) // units // ALIGNMENT) * ALIGNMENT
        if total + nbytes <= OWN_BYTES:
            slots[node] = total
            total += nbytes
    return slots
