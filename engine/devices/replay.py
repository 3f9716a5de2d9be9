"""A recorded computation bound to fixed buffers: running it again costs little more than its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.core.node import Node
from engine.core.walk import post_order
from engine.devices.array import Array, view
from engine.devices.cpu.device import CpuDevice
from engine.devices.device import Device


class Replay:
    """``outputs`` as a function of ``inputs``: leaves of their graph whose arrays are rewritten between runs.

    Whatever does not depend on the inputs keeps the value it has. The arrays of the outputs are the same in
    each run and are overwritten by the next. Not for several threads at once.
    """

    def __init__(self, outputs: Sequence[Node], inputs: Sequence[Node], device: Device) -> None:
        self.inputs = [_copy(node.value) for node in inputs]
        arrays: dict[Node, Array] = dict(zip(inputs, self.inputs, strict=True))
        self._calls: list[Callable[[], None]] = []
        bind = device.bind if isinstance(device, CpuDevice) else _binder(device)
        for node in _dependent(outputs, inputs):
            operands = [arrays.get(operand, operand.value) for operand in node.inputs]
            result = view(node.op, node.attrs, operands[0])
            if result is None:
                result, call = bind(node.op, node.attrs, operands, node.shape, node.dtype)  # type: ignore[arg-type]
                self._calls.append(call)
            arrays[node] = result
        self.outputs = [arrays.get(node, node.value) for node in outputs]
        self._kept = arrays  # calls hold addresses only

    def run(self) -> None:
        """Computes the outputs from what the inputs hold now."""
        for call in self._calls:
            call()


def write(target: Array, source: Array | bytes) -> None:
    """Copies elements of equal number and dtype into a contiguous array."""
    target.storage.buffer()[:] = source if isinstance(source, bytes) else source.tobytes()


def _copy(x: Array) -> Array:
    return Array.from_bytes(x.tobytes(), x.shape, x.dtype)


def _dependent(outputs: Sequence[Node], inputs: Sequence[Node]) -> list[Node]:
    """Nodes between ``inputs`` and ``outputs``, each after its operands."""
    known = set(inputs)
    order = []
    for node in post_order(outputs):
        if node not in known and any(operand in known for operand in node.inputs):
            known.add(node)
            order.append(node)
    return order


def _binder(device: Device) -> Callable[..., tuple[Array, Callable[[], None]]]:
    """Binding for devices that have none: each call computes afresh and copies into the lasting result."""

    def bind(
        op: str, attrs: tuple[Any, ...], inputs: Sequence[Array], shape: tuple[int, ...], dtype: Any
    ) -> tuple[Array, Callable[[], None]]:
        result = _copy(device.run(op, attrs, inputs, shape, dtype))
        return result, lambda: write(result, device.run(op, attrs, inputs, shape, dtype))

    return bind
