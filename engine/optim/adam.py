"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf, sqrt

from engine.nn.module import Parameter
from engine.optim.optimizer import Optimizer, Slots
from engine.tensor import Tensor

_SHRINK = 2.0**-25
"""g enters v times ``_SHRINK``, so that the square of a gradient of 1e25 is still finite in float32; what the
factor makes vanish at the other end lies far below ``eps``."""


class Adam(Optimizer):
    """m ← β₁m + (1-β₁)g, v ← β₂v + (1-β₂)g², p ← p - lr · m̂ / (√v̂ + eps) (Kingma and Ba 2015).

    ``weight_decay`` adds that multiple of p to g. m and v are kept without their factors 1-β, which enter,
    with lr and the corrections of bias, through two scalars a step: p ← p - m / (a√v + b).
    """

    slots = ("m", "v")

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr, weight_decay)
        for beta in betas:
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"betas are {betas}; each must be from 0 up to but not including 1")
        self.betas = betas
        self.eps = eps

    def numbers(self) -> dict[str, float]:
        first, second = self.betas
        t = max(self.t, 1)
        rate = self.lr * (1.0 - first) / (1.0 - first**t)
        spread = sqrt((1.0 - second) / (1.0 - second**t)) / _SHRINK
        scale, least = (spread / rate, self.eps / rate) if rate else (0.0, inf)  # m / inf moves nothing
        return {"scale": scale, "least": least, "weight_decay": self.weight_decay}

    def update(self, value: Tensor, gradient: Tensor, slots: Slots) -> Tensor:
        if self.weight_decay:
            gradient = gradient + value * self.scalar("weight_decay", value)
        return self._moved(value, gradient, slots)

    def _moved(self, value: Tensor, gradient: Tensor, slots: Slots) -> Tensor:
        root = gradient * _SHRINK
        slots["m"] = m = gradient + slots["m"] * self.betas[0]
        slots["v"] = v = root * root + slots["v"] * self.betas[1]
        return value - m / (v.sqrt() * self.scalar("scale", v) + self.scalar("least", v))


class AdamW(Adam):
    """Adam whose decay acts on p itself: p ← p - lr · weight_decay · p (Loshchilov and Hutter 2019).

    ``decays`` says which parameters decay; by default those with two axes or more, not biases and norms.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        *,
        decays: Callable[[Tensor], bool] = lambda parameter: parameter.ndim >= 2,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)
        self.decays = decays

    def numbers(self) -> dict[str, float]:
        return {**super().numbers(), "kept": 1.0 - self.lr * self.weight_decay}

    def update(self, value: Tensor, gradient: Tensor, slots: Slots) -> Tensor:
        if self.weight_decay and self.decays(value):
            value = value * self.scalar("kept", value)
        return self._moved(value, gradient, slots)
