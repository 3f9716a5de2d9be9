"""A plan whose states lie in cells: written in place where nobody else holds their memory."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount

from engine.compiler.blueprint import State
from engine.compiler.plan import Plan
from engine.core.node import Node
from engine.devices.array import Array, Storage, contiguous_strides
from engine.devices.cpu.device import CpuDevice


class Executable:
    """``targets`` and the new values of ``states`` as a function of ``inputs``, whose sizes are known."""

    def __init__(
        self, inputs: Sequence[Node], targets: Sequence[Node], states: Sequence[State], device: CpuDevice
    ) -> None:
        self.plan = Plan(inputs, targets, device, states=states)
        self._binding = binding = self.plan.bind({})
        self._device = device
        kept = [
            False if k is not None else place
            for k, place in zip(binding.unchanged, binding.blueprint.in_place, strict=True)
        ]
        numbers = [self.plan.number(old) for old, _ in states]
        self._states = list(zip(numbers, kept, binding.unchanged, binding.state_bytes, strict=True))

    def run(self, values: list[Array]) -> tuple[list[Array], list[Array]]:
        """The targets, and the new values of the states.

        A state is written in place where apart from a cell only ``values`` holds its array.
        Raises BoundsError, before any state has changed, for a checked index out of range.
        """
        for i, x in enumerate(values):
            if not x.is_contiguous:
                values[i] = self._device.contiguous(x)
        binding = self._binding
        outputs = [Storage(nbytes) for nbytes in binding.output_bytes]
        news: list[Array] = []
        for number, in_place, unchanged, nbytes in self._states:
            if unchanged is not None or (in_place and _is_alone(values, number)):
                news.append(values[number])
            else:
                shape = values[number].shape
                news.append(Array(Storage(nbytes), 0, shape, contiguous_strides(shape), values[number].dtype))
        addresses = [x.storage.address + x.offset * x.dtype.size for x in values]
        addresses += [storage.address for storage in outputs]
        addresses += [x.storage.address + x.offset * x.dtype.size for x in news]
        binding.execute(addresses)
        return binding.show(values, outputs), news


def _is_alone(values: list[Array], number: int) -> bool:
    """Whether only a cell and ``values`` hold this array, and only the array its memory."""
    return getrefcount(values[number]) == _ARRAY and getrefcount(values[number].storage) == _STORAGE


_cell = [Array(Storage(0), 0, (0,), (1,), None)]  # type: ignore[arg-type]
_values = [_cell[0]]
_ARRAY, _STORAGE = getrefcount(_values[0]), getrefcount(_values[0].storage)
