"""A plan whose states lie in cells: written in place where nobody else holds their memory."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount

from engine.compiler.plan import Plan
from engine.compiler.sized import Sizes
from engine.core.dtype import float32
from engine.devices.array import Array, Storage, contiguous_strides


class Executable:
    """A plan at given sizes of its symbols. One thread at a time."""

    def __init__(self, plan: Plan, sizes: Sizes) -> None:
        self._binding = binding = plan.bind(sizes)
        self._device = plan.device
        self._seen: list[Array | None] = [None] * len(plan.inputs)
        self._held: list[Array] = [_NOTHING] * len(plan.inputs)
        self._addresses = [0] * len(plan.inputs)
        numbers = [plan.number(old) for old, _ in plan.states]
        in_place = binding.blueprint.in_place
        self._states = list(zip(numbers, in_place, binding.unchanged, binding.state_bytes, strict=True))

    def run(self, values: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """The targets, and the new values of the states.

        A state whose array came from the last run is written in place where nobody holds it but one cell and
        ``values``; the result is then the array itself. Raises BoundsError, before any state has changed, for
        a checked index out of range.
        """
        self._look_at(values)
        binding, held, addresses = self._binding, self._held, self._addresses
        outputs = [Storage(nbytes) for nbytes in binding.output_bytes]
        news: list[Array] = []
        places: list[int] = []
        for number, in_place, unchanged, nbytes in self._states:
            if unchanged is not None or (
                in_place
                and getrefcount(held[number]) == _OWN_ARRAY
                and getrefcount(held[number].storage) == _OWN_STORAGE
            ):
                news.append(held[number])
                places.append(addresses[number])
            else:
                storage, x = Storage(nbytes), held[number]
                news.append(Array(storage, 0, x.shape, contiguous_strides(x.shape), x.dtype))
                places.append(storage.address)
        binding.execute([*addresses, *[storage.address for storage in outputs], *places])
        return binding.show(held, outputs), news

    def _look_at(self, values: Sequence[Array]) -> None:
        """Lays out what differs from the run before."""
        seen = self._seen
        for i, x in enumerate(values):
            if x is not seen[i]:
                seen[i] = x
                self._held[i] = self._device.contiguous(x)
                self._addresses[i] = self._held[i].address


_NOTHING = Array(Storage(0), 0, (0,), (1,), float32)


def _references() -> tuple[int, int]:
    """References to an array and its memory that a cell, ``values``, ``seen`` and ``held`` hold."""
    held = [Array(Storage(0), 0, (0,), (1,), float32)]
    others = [list(held), list(held), list(held)]
    return getrefcount(held[0]), getrefcount(held[0].storage) + 0 * len(others)


_OWN_ARRAY, _OWN_STORAGE = _references()
