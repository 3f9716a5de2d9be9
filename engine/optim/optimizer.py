"""What all optimisers share: parameters, step count, exact state, and how a step rebinds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.core.dtype import DType, float32
from engine.devices.array import Array
from engine.nn.module import Parameter
from engine.tensor import Tensor, no_grad
from engine.tensor.cell import depend_on, from_host

Slots = dict[str, Tensor]
"""The running values that an optimiser keeps for one parameter, by name."""


class Optimizer:
    """Base of optimisers. ``lr`` may be set between steps; ``t`` counts the steps taken.

    Both, and what follows from them, are computed on the host in float64 and enter the update as float32
    scalars. A subclass defines ``slots``, the names of its running values, ``numbers`` and ``update``.
    """

    slots: tuple[str, ...] = ()

    def __init__(self, parameters: Iterable[Parameter], lr: float, weight_decay: float = 0.0) -> None:
        self.parameters = list(parameters)
        if not self.parameters:
            raise ValueError("no parameters to optimise")
        if not lr >= 0.0:
            raise ValueError(f"lr is {lr}; it must not be negative")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay is {weight_decay}; it must not be negative")
        self.lr = lr
        self.weight_decay = weight_decay
        self.t = 0
        self._slots: list[Slots] = [{} for _ in self.parameters]
        self._scalars: dict[tuple[str, DType], Tensor] = {}

    def zero_grad(self) -> None:
        """Forgets all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Updates every parameter that has a gradient."""
        slots_now = self._slots
        depend_on(lambda: (self._slots is slots_now, self._fixed()))
        names = list(self.numbers())
        scalars = from_host(self._advance, [((), float32)] * len(names), self._retreat)
        self._scalars = {(name, float32): value for name, value in zip(names, scalars, strict=True)}
        with no_grad():
            for parameter, slots in zip(self.parameters, self._slots, strict=True):
                gradient = parameter.grad
                if gradient is None:
                    continue
                for name in self.slots if not slots else ():
                    slots[name] = Tensor.zeros(parameter.shape, dtype=parameter.dtype)
                running = dict(slots)
                parameter.assign(self.update(parameter, gradient.detach(), running))
                for name, slot in slots.items():
                    slot.assign(running[name])
        self._scalars.clear()

    def _fixed(self) -> list[Any]:
        """The settings that are not among ``numbers``."""
        varying = ("lr", "weight_decay", "t")
        kinds = (bool, int, float, tuple)
        settings = [
            value for name, value in vars(self).items() if name not in varying and type(value) in kinds
        ]
        return [bool(self.weight_decay), *settings]

    def _advance(self) -> list[Array]:
        """Counts the step; its numbers."""
        self.t += 1
        return [Array.from_list([number], (), float32) for number in self.numbers().values()]

    def _retreat(self) -> None:
        self.t -= 1

    def numbers(self) -> dict[str, float]:
        """What enters this step's update from the host, for ``scalar``."""
        return {"lr": self.lr, "weight_decay": self.weight_decay}

    def update(self, value: Tensor, gradient: Tensor, slots: Slots) -> Tensor:
        """The parameter's next value; writes the next running values into ``slots``."""
        raise NotImplementedError

    def scalar(self, name: str, like: Tensor) -> Tensor:
        """One of ``numbers`` as an operand for ``like``: rounded to float32, then to its dtype."""
        key = name, like.dtype
        if key not in self._scalars:
            self._scalars[key] = self._scalars[name, float32].astype(like.dtype)
        return self._scalars[key]

    def state_dict(self) -> dict[str, Tensor]:
        """Every running value, named ``<slot>.<position of the parameter>``."""
        return {
            f"{name}.{i}": value.detach()
            for i, slots in enumerate(self._slots)
            for name, value in sorted(slots.items())
        }

    def settings(self) -> dict[str, float]:
        """The numbers that belong to the state besides its tensors."""
        return {"t": self.t, "lr": self.lr}

    def load_state_dict(self, state: Mapping[str, Tensor], settings: Mapping[str, Any]) -> None:
        """Restores what ``state_dict`` and ``settings`` gave. Raises ValueError for what does not fit."""
        slots: list[Slots] = [{} for _ in self.parameters]
        for key, value in state.items():
            name, _, position = key.rpartition(".")
            if name not in self.slots or not position.isdecimal() or int(position) >= len(slots):
                raise ValueError(f"{key!r} is not a running value of {type(self).__name__}")
            parameter = self.parameters[int(position)]
            if value.shape != parameter.shape:
                raise ValueError(f"{key} has shape {value.shape}, its parameter {parameter.shape}")
            slots[int(position)][name] = value.fresh()
        self._slots = slots
        self.t = int(settings["t"])
        self.lr = float(settings["lr"])
