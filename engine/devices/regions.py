"""Loops and conditions on devices that compute one primitive at a time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from engine.core.dtype import DType, bool_, int64
from engine.core.node import Node
from engine.core.region import LoopBody, Region
from engine.devices.array import Array, view

if TYPE_CHECKING:
    from engine.devices.device import Device

Attrs = tuple[Any, ...]


def run_region(device: Device, op: str, attrs: Attrs, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """All results of a loop or a condition whose sizes are known."""
    if op == "cond":
        pred, *operands = inputs
        return _Program(attrs[0] if pred.flat()[0] else attrs[1]).run(device, operands)
    body: LoopBody = attrs[0]
    counted = len(inputs) - len(body.carries) - len(body.constants)
    turns = cast("int | None", attrs[1])
    if counted:
        count = max(inputs[0].flat()[0], 0)
        turns = count if turns is None else min(count, turns)
    assert turns is not None
    first, last = counted, counted + len(body.carries)
    return _loop(device, body, turns, attrs[1], list(inputs[first:last]), list(inputs[last:]))


def _loop(  # noqa: PLR0917  a loop's parts
    device: Device,
    body: LoopBody,
    turns: int,
    limit: int | None,
    carries: list[Array],
    constants: list[Array],
) -> tuple[Array, ...]:
    program = _Program(body)
    lanes = _Lanes(device, cast("tuple[int, ...]", body.lanes))
    stacks: list[list[Array]] = [[] for _ in body.slices]
    for turn in range(turns):
        number = Array.from_list([turn], (), int64)
        results = program.run(device, [number, *carries, *constants])
        carries = [lanes.kept(old, new) for old, new in zip(carries, results, strict=False)]
        for stack, x in zip(stacks, results[len(carries) :], strict=False):
            stack.append(lanes.kept(None, x))
        if lanes.after(None if body.stop is None else results[-1]):
            break
    stacked = [
        _stack(device, stack, cast("int", limit), out) for stack, out in zip(stacks, body.slices, strict=True)
    ]
    return (lanes.turns, *carries, *stacked)


class _Lanes:
    """Which lanes of a loop have stopped, and after how many turns."""

    def __init__(self, device: Device, shape: tuple[int, ...]) -> None:
        self._device = device
        self._shape = shape
        self._stopped = [False] * prod(shape)
        self._turns = [0] * prod(shape)

    @property
    def turns(self) -> Array:
        return Array.from_list(self._turns, self._shape, int64)

    def kept(self, old: Array | None, new: Array) -> Array:
        """``new``, but in stopped lanes ``old``, or 0."""
        if not any(self._stopped):
            return new
        old = _filled(0, new.shape, new.dtype) if old is None else old
        stopped = _spread(Array.from_list(self._stopped, self._shape, bool_), new.shape)
        return self._device.run("select", (), [stopped, old, new], new.shape, new.dtype)

    def after(self, stop: Array | None) -> bool:
        """Counts a turn, whose flags are given; whether all lanes have stopped."""
        self._turns = [turns + (not end) for turns, end in zip(self._turns, self._stopped, strict=True)]
        if stop is not None:
            self._stopped = [a or b for a, b in zip(self._stopped, stop.flat(), strict=True)]
        return stop is not None and all(self._stopped)


class _Program:
    """The nodes of a region in their order, and how many readers each value has."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._readers = dict.fromkeys((*region.params, *region.outs), 1)
        for node in region.nodes:
            for operand in node.inputs:
                self._readers[operand] = self._readers.get(operand, 0) + 1

    def run(self, device: Device, operands: Sequence[Array]) -> tuple[Array, ...]:
        readers = dict(self._readers)
        values: dict[Node, Any] = dict(zip(self._region.params, operands, strict=True))
        for node in self._region.nodes:
            values[node] = computed(node, [values[operand] for operand in node.inputs], device)
            for operand in node.inputs:
                readers[operand] -= 1
                if not readers[operand]:
                    values.pop(operand, None)
        return tuple([values[out] for out in self._region.outs])


def computed(node: Node, operands: Sequence[Any], device: Device) -> Any:
    """What a node, whose sizes are known, makes of its operands; of a region it is all results."""
    op = node.op
    if op in ("loop", "cond"):
        return device.run_region(op, node.attrs, operands)
    if op == "item":
        return operands[0][node.attrs[0]]
    moved = view(op, node.attrs, operands[0]) if operands and isinstance(operands[0], Array) else None
    if moved is not None:
        return moved
    return device.run(op, node.attrs, operands, cast("tuple[int, ...]", node.shape), node.dtype)


def _stack(device: Device, slices: Sequence[Array], limit: int, out: Node) -> Array:
    """The slices one after another, and zeros up to the limit."""
    shape = cast("tuple[int, ...]", out.shape)
    rows = [Array(x.storage, x.offset, (1, *shape), (0, *x.strides), x.dtype) for x in slices]
    if len(rows) < limit:
        rows.append(_filled(0, (limit - len(rows), *shape), out.dtype))
    if not rows:
        return Array.empty((0, *shape), out.dtype)
    return device.run("concat", (0,), rows, (limit, *shape), out.dtype)


def _filled(value: int, shape: tuple[int, ...], dtype: DType) -> Array:
    return _spread(Array.from_bytes(dtype.encode(value), (), dtype), shape)


def _spread(x: Array, shape: tuple[int, ...]) -> Array:
    return cast("Array", view("broadcast", (shape,), x))
