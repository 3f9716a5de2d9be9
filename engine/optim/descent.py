"""Optimisers that keep one running value or none."""

from __future__ import annotations

from collections.abc import Iterable

from engine.nn.module import Parameter
from engine.optim.optimizer import Optimizer, Slots
from engine.tensor import Tensor


class SGD(Optimizer):
    """p ← p - lr · g; with momentum b ← momentum · b + g replaces g (with Nesterov g + momentum · b does)."""

    slots = ("momentum",)

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-2,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr, weight_decay)
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"momentum is {momentum}; it must be from 0 up to but not including 1")
        if nesterov and not momentum:
            raise ValueError("nesterov needs momentum above 0")
        self.momentum = momentum
        self.nesterov = nesterov

    def update(self, value: Tensor, gradient: Tensor, slots: Slots) -> Tensor:
        gradient = _decayed(self, value, gradient)
        if self.momentum:
            slots["momentum"] = running = slots["momentum"] * self.momentum + gradient
            gradient = gradient + running * self.momentum if self.nesterov else running
        return value - gradient * self.scalar("lr", value)


class RMSprop(Optimizer):
    """v ← αv + (1-α)g², p ← p - lr · g / (√v + eps) (Tieleman and Hinton 2012)."""

    slots = ("v",)

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr, weight_decay)
        if not 0.0 <= alpha < 1.0:
            raise ValueError(f"alpha is {alpha}; it must be from 0 up to but not including 1")
        self.alpha = alpha
        self.eps = eps

    def update(self, value: Tensor, gradient: Tensor, slots: Slots) -> Tensor:
        gradient = _decayed(self, value, gradient)
        slots["v"] = v = slots["v"] * self.alpha + gradient * gradient * (1.0 - self.alpha)
        return value - gradient * self.scalar("lr", value) / (v.sqrt() + self.eps)


class Adagrad(Optimizer):
    """v ← v + g², p ← p - lr · g / (√v + eps) (Duchi, Hazan and Singer 2011)."""

    slots = ("v",)

    def __init__(
        self, parameters: Iterable[Parameter], lr: float = 1e-2, eps: float = 1e-10, weight_decay: float = 0.0
    ) -> None:
        super().__init__(parameters, lr, weight_decay)
        self.eps = eps

    def update(self, value: Tensor, gradient: Tensor, slots: Slots) -> Tensor:
        gradient = _decayed(self, value, gradient)
        slots["v"] = v = slots["v"] + gradient * gradient
        return value - gradient * self.scalar("lr", value) / (v.sqrt() + self.eps)


class Lion(Optimizer):
    """p ← p - lr · (sign(β₁m + (1-β₁)g) + weight_decay · p); m ← β₂m + (1-β₂)g (Chen and others 2023)."""

    slots = ("m",)

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr, weight_decay)
        for beta in betas:
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"betas are {betas}; each must be from 0 up to but not including 1")
        self.betas = betas

    def update(self, value: Tensor, gradient: Tensor, slots: Slots) -> Tensor:
        first, second = self.betas
        direction = (slots["m"] * first + gradient * (1.0 - first)).sign()
        slots["m"] = slots["m"] * second + gradient * (1.0 - second)
        if self.weight_decay:
            direction = direction + value * self.scalar("weight_decay", value)
        return value - direction * self.scalar("lr", value)


def _decayed(optimizer: Optimizer, value: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with weight decay added to it."""
    if not optimizer.weight_decay:
        return gradient
    return gradient + value * optimizer.scalar("weight_decay", value)
