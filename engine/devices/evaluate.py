"""From nodes to arrays: one primitive after the other, without recursion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.core.node import Node
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.device import Device
from engine.devices.regions import computed
from engine.errors import DeviceError


def evaluate(nodes: Sequence[Node], device: Device) -> list[Array]:
    """The arrays of ``nodes``, which are memoised in their ``value``.

    Values that are already memoised are used. What is computed on the way is dropped after its last reader,
    so it is memoised for ``nodes`` alone, and for loops and conditions, whose gradients ask for further
    results. Raises DeviceError for a leaf without a value.
    """
    # last node first: gradients of the last layers are ready first, and what they read is freed early
    order = post_order([node for node in reversed(nodes) if node.value is None], stop=_is_known)
    readers: dict[Node, int] = dict.fromkeys(nodes, 1)  # one more reader, so that results stay
    for node in order:
        for operand in node.inputs:
            readers[operand] = readers.get(operand, 0) + 1
    values: dict[Node, Any] = {}  # of a region node all its results
    for node in order:
        operands = node.inputs
        arrays = [operand.value or values[operand] for operand in operands]
        if not arrays and node.op in ("input", "parameter"):
            raise DeviceError(f"{node} has no value: give it one before anything that reads it is evaluated")
        values[node] = computed(node, arrays, device)
        if type(values[node]) is tuple:
            node.value = values[node]
        for operand in operands:
            left = readers[operand] - 1
            readers[operand] = left
            if not left:
                values.pop(operand, None)
    for node in nodes:
        if node.value is None:
            node.value = values[node]
    return [node.value for node in nodes]


def _is_known(node: Node) -> bool:
    return node.value is not None
