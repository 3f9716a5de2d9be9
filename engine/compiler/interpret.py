"""The oracle of every plan: one node a kernel, at given sizes, on any device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.node import Node
from engine.core.region import at_sizes
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.device import Device
from engine.devices.regions import computed
from engine.errors import DeviceError


def interpret(
    targets: Sequence[Node], values: Mapping[Node, Array], device: Device, sizes: Mapping[str, int]
) -> list[Array]:
    """The arrays of ``targets`` for ``values`` of the leaves, each node computed once and by itself.

    Other leaves have the values they hold. Raises DeviceError for a leaf without one.
    """
    arrays: dict[Node, Any] = dict(values)  # of a region node all its results
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


def _computed(node: Node, operands: list[Any], device: Device, sizes: Mapping[str, int]) -> Any:
    if node.op in ("input", "parameter"):
        if node.value is None:
            raise DeviceError(f"{node} has no value: feed it")
        return node.value
    shape, attrs = at_sizes(node.shape, sizes), at_sizes(node.attrs, sizes)
    return computed(Node(node.op, node.inputs, attrs, shape, node.dtype), operands, device)
