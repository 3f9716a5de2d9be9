"""Sessions: runs of a plan whose states go on from each run to the next, without copies."""

from __future__ import annotations

from collections.abc import Mapping
from sys import getrefcount
from typing import TYPE_CHECKING, TypeAlias

from engine.compiler.binding import Binding
from engine.core.node import Node
from engine.devices.array import Array, Storage, contiguous_strides

if TYPE_CHECKING:
    from engine.compiler.plan import Plan

Feeds: TypeAlias = Mapping[Node, Array] | Mapping[str, Array] | Mapping[Node | str, Array]
"""Arrays for inputs, named by their nodes or their names."""


class Session:
    """The states of one plan. One thread at a time.

    A run writes each state over its old value where the plan allows it, else into a second buffer that takes
    turns with the first. Arrays that ``read`` has handed out, and those given, stay as they are for as long
    as somebody holds them: the next run then writes elsewhere.
    """

    def __init__(self, plan: Plan, values: Feeds) -> None:
        self._plan = plan
        self._states = {plan.number(old): k for k, (old, _) in enumerate(plan.states)}
        given = {plan.number(key): x for key, x in values.items()}
        missing = [plan.label(number) for number in self._states if number not in given]
        if missing or len(given) != len(self._states):
            wrong = missing or [plan.label(number) for number in given if number not in self._states]
            raise KeyError(f"a session takes a value for each state and nothing else; {', '.join(wrong)}")
        self._inputs: list[Array | None] = [None] * len(plan.inputs)
        self._fed = [k for k in range(len(plan.inputs)) if k not in self._states]
        in_place = plan.blueprint.in_place
        self._turning = [number for number, k in self._states.items() if not in_place[k]]
        shown = {access.source for access in plan.blueprint.results}
        self._shown = {number for number in self._states if plan.inputs[number] in shown}
        self._binding: Binding | None = None
        self._shapes: list[tuple[int, tuple[int, ...]]] = []
        self._spare: dict[int, Storage] = {}
        self._lent: set[int] = set()
        self._addresses = [0] * len(plan.inputs)
        for number, x in given.items():
            self._hold(number, plan.fitting(number, x))
            self._lent.add(number)

    def run(self, feeds: Feeds) -> list[Array]:
        """The targets for the inputs that are no states, and from then on the states' new values.

        When it raises, the states are as they were.
        """
        plan, inputs = self._plan, self._inputs
        if len(feeds) != len(self._fed):
            raise KeyError(f"feeds must be {', '.join(plan.label(k) for k in self._fed) or 'none'}")
        shapes = []
        for key, x in feeds.items():
            number = plan.number(key)
            if number in self._states:
                raise KeyError(f"{plan.label(number)} is a state; write it before the run")
            self._hold(number, plan.fitting(number, x))
            shapes.append((number, x.shape))
        if self._binding is None or shapes != self._shapes:
            self._binding, self._shapes = plan.binding(inputs), shapes  # type: ignore[arg-type]
        binding = self._binding
        outputs = [Storage(nbytes) for nbytes in binding.output_bytes]
        elsewhere = self._elsewhere(binding)
        news = [self._addresses[number] for number in self._states]
        for number, storage in elsewhere.items():
            news[self._states[number]] = storage.address
        binding.execute([*self._addresses, *[storage.address for storage in outputs], *news])
        results = binding.show(inputs, outputs)  # type: ignore[arg-type]
        for number, storage in elsewhere.items():
            self._swap(number, storage)
        return results

    def read(self, key: Node | str) -> Array:
        """The present value of a state; it stays as it is."""
        number = self._state(key)
        x = self._inputs[number]
        assert x is not None
        self._lent.add(number)
        return Array(x.storage, x.offset, x.shape, x.strides, x.dtype)

    def write(self, key: Node | str, value: Array) -> None:
        """Gives a state another value."""
        number = self._state(key)
        self._hold(number, self._plan.fitting(number, value))
        self._lent.add(number)

    def _state(self, key: Node | str) -> int:
        number = self._plan.number(key)
        if number not in self._states:
            raise KeyError(f"{self._plan.label(number)} is no state of the plan")
        return number

    def _hold(self, number: int, x: Array) -> None:
        self._inputs[number] = Array(x.storage, x.offset, x.shape, x.strides, x.dtype)
        self._addresses[number] = x.address

    def _elsewhere(self, binding: Binding) -> dict[int, Storage]:
        """Where states are written that this run must not write in place."""
        moving = [number for number in self._lent if not self._is_alone(number)]
        self._lent.intersection_update(moving)
        found: dict[int, Storage] = {}
        for number in {*moving, *self._turning}:
            k = self._states[number]
            if binding.unchanged[k] is None:
                spare = number in self._spare
                found[number] = self._spare.pop(number) if spare else Storage(binding.state_bytes[k])
        return found

    def _is_alone(self, number: int) -> bool:
        """Whether nobody else holds the memory of a state."""
        x = self._inputs[number]
        assert x is not None
        return x.offset == 0 and _references(x) == _ALONE

    def _swap(self, number: int, storage: Storage) -> None:
        x = self._inputs[number]
        assert x is not None
        if number not in self._lent and number not in self._shown:
            self._spare[number] = x.storage
        self._lent.discard(number)
        self._inputs[number] = Array(storage, 0, x.shape, contiguous_strides(x.shape), x.dtype)
        self._addresses[number] = storage.address


def _references(x: Array) -> int:
    return getrefcount(x.storage)


_ALONE = _references(Array(Storage(0), 0, (0,), (1,), Node.__new__(Node)))  # type: ignore[arg-type]
