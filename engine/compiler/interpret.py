"""The oracle of every plan: one node a kernel, at given sizes, on any device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.dim import Poly, evaluate
from engine.core.node import Node
from engine.core.walk import post_order
from engine.devices.array import Array, view
from engine.devices.device import Device
from engine.errors import DeviceError


def interpret(
    targets: Sequence[Node], values: Mapping[Node, Array], device: Device, sizes: Mapping[str, int]
) -> list[Array]:
    """The arrays of ``targets`` for ``values`` of the leaves, each node computed once and by itself.

    Other leaves have the values they hold. Raises DeviceError for a leaf without one.
    """
    arrays: dict[Node, Array] = dict(values)
    order = [node for node in post_order(targets, stop=arrays.__contains__) if node not in arrays]
    readers: dict[Node, int] = dict.fromkeys(targets, 1)
    for node in order:
        for operand in node.inputs:
            readers[operand] = readers.get(operand, 0) + 1
    for node in order:
        arrays[node] = _computed(node, [arrays[operand] for operand in node.inputs], device, sizes)
        for operand in node.inputs:
            readers[operand] -= 1
            if not readers[operand]:
                arrays.pop(operand, None)
    return [arrays[target] for target in targets]


def _computed(node: Node, operands: list[Array], device: Device, sizes: Mapping[str, int]) -> Array:
    if node.op in ("input", "parameter"):
        if node.value is None:
            raise DeviceError(f"{node} has no value: feed it")
        value: Array = node.value
        return value
    attrs = at(node.attrs, sizes)
    moved = view(node.op, attrs, operands[0]) if operands else None
    return moved or device.run(node.op, attrs, operands, at(node.shape, sizes), node.dtype)


def at(item: Any, sizes: Mapping[str, int]) -> Any:
    """Attributes or a shape with each symbol replaced by its size."""
    if isinstance(item, tuple):
        return tuple([at(part, sizes) for part in item])
    return evaluate(item, sizes) if isinstance(item, Poly) else item
