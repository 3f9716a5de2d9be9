"""A recorded computation bound to fixed buffers: running it again costs little more than its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from engine.core.dtype import DType
from engine.core.node import Node
from engine.core.walk import post_order
from engine.devices.array import Array, view
from engine.devices.dense import dense
from engine.devices.device import Device


class Replay:
    """``outputs`` as a function of ``inputs``: leaves of their graph whose arrays are rewritten between runs.

    Whatever does not depend on the inputs keeps the value it has. ``feedback`` holds pairs of an output and
    an input: after each run that input becomes what the output was. The arrays of the outputs are the same in
    each run and are overwritten by the next. Not for several threads at once.
    """

    def __init__(
        self,
        outputs: Sequence[Node],
        inputs: Sequence[Node],
        device: Device,
        feedback: Sequence[tuple[Node, Node]] = (),
    ) -> None:
        arrays = {node: _copy(node.value) for node in inputs}
        self._calls: list[Callable[[], None]] = []
        bind = getattr(device, "bind", None) or _binder(device)
        for node in _dependent([*outputs, *[source for source, _ in feedback]], inputs):
            operands = [
                arrays[x] if x in arrays else _constant(x.value, node.op, device) for x in node.inputs
            ]
            result = view(node.op, node.attrs, operands[0])
            if result is None:
                result, call = bind(node.op, node.attrs, operands, _sizes(node), node.dtype)
                self._calls.append(call)
            arrays[node] = result
        self._calls += [_mover(arrays[source], arrays[target]) for source, target in feedback]
        self._buffers = [arrays[node].storage.buffer() for node in inputs]
        self.outputs = [arrays.get(node, node.value) for node in outputs]
        self._kept = arrays  # calls hold addresses only

    def run(self, *values: bytes | memoryview) -> None:
        """Writes row-major ``values`` into the first inputs, then computes the outputs."""
        for buffer, value in zip(self._buffers, values, strict=False):
            buffer[:] = value
        for call in self._calls:
            call()


def _sizes(node: Node) -> tuple[int, ...]:
    return tuple([int(size) for size in node.shape])  # type: ignore[arg-type]


def _copy(x: Array) -> Array:
    return Array.from_bytes(x.tobytes(), x.shape, x.dtype)


def _constant(x: Array, op: str, device: Device) -> Array:
    """An operand that stays: laid out row by row where a product reads it again and again."""
    return x if op != "dot" or x.is_contiguous else dense(x, device)


def _mover(source: Array, target: Array) -> Callable[[], None]:
    """The call that copies one contiguous array into another."""
    into = target.storage.buffer()
    if source.is_contiguous and source.offset == 0 and source.storage.nbytes == len(into):
        return partial(into.__setitem__, slice(None), source.storage.buffer())
    return lambda: into.__setitem__(slice(None), source.tobytes())


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
        op: str, attrs: tuple[Any, ...], inputs: Sequence[Array], shape: tuple[int, ...], dtype: DType
    ) -> tuple[Array, Callable[[], None]]:
        result = _copy(device.run(op, attrs, inputs, shape, dtype))
        into = result.storage.buffer()
        return result, lambda: into.__setitem__(
            slice(None), device.run(op, attrs, inputs, shape, dtype).tobytes()
        )

    return bind
