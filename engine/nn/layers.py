"""Layers that have parameters or a mode."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from engine.core.dtype import INTS
from engine.errors import DTypeError
from engine.nn.module import Module, Parameter, require_last, require_positive
from engine.random import Generator, default_generator
from engine.tensor import Tensor
from engine.tensor.cell import apply
from engine.tensor.functional import dropout
from engine.tensor.promotion import as_tensor


class Linear(Module):
    """x Wᵀ + b over the last axis; ``weight`` is (out_features, in_features), both drawn from U(±1/√in)."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, generator: Generator | None = None
    ) -> None:
        require_positive(in_features=in_features, out_features=out_features)
        draw = generator or default_generator()
        bound = in_features**-0.5
        self.weight = Parameter(draw.uniform(out_features, in_features, low=-bound, high=bound))
        self.bias = Parameter(draw.uniform(out_features, low=-bound, high=bound)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(…, in_features) to (…, out_features)."""
        require_last(x, "in_features", self.weight.shape[1])
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(…, K) by ``weight`` (N, K) and ``bias`` (N,) gives (…, N): one product over all rows."""
    rows = x.reshape(prod(x.shape[:-1]), x.shape[-1])
    result = rows @ weight.T
    if bias is not None:
        result = result + bias
    return result.reshape(*x.shape[:-1], weight.shape[0])


class Embedding(Module):
    """A row of ``weight`` (count, dim) for each index; drawn from U(±1)."""

    def __init__(self, count: int, dim: int, generator: Generator | None = None) -> None:
        require_positive(count=count, dim=dim)
        self.weight = Parameter((generator or default_generator()).uniform(count, dim, low=-1.0, high=1.0))

    def forward(self, indices: Any) -> Tensor:
        """Integers (…) to (…, dim). Raises IndexError for an index outside 0 … count - 1."""
        indices = as_tensor(indices)
        if indices.dtype not in INTS:
            raise DTypeError(f"indices are {indices.dtype}; they must be integers")
        return apply("gather", (self.weight, indices), "checked")


class LayerNorm(Module):
    """(x - mean) / √(variance + eps) · weight + bias over the last axis of size ``dim``."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        require_positive(dim=dim)
        self.weight = Parameter(Tensor.ones(dim))
        self.bias = Parameter(Tensor.zeros(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        require_last(x, "dim", self.weight.shape[0])
        return x.layernorm(self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """x / √(mean(x²) + eps) · weight over the last axis of size ``dim``."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        require_positive(dim=dim)
        self.weight = Parameter(Tensor.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        require_last(x, "dim", self.weight.shape[0])
        return x.rmsnorm(self.weight, self.eps)


class Dropout(Module):
    """While training, zeroes each element with probability ``rate`` and scales the rest by 1 / (1 - rate)."""

    def __init__(self, rate: float, generator: Generator | None = None) -> None:
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"rate is {rate}; it must be from 0 up to but not including 1")
        self.rate = rate
        self.generator = generator

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        return dropout(x, self.rate, (self.generator or default_generator()).uniform(x.shape))


class Activation(Module):
    """A function without parameters as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class ReLU(Activation):
    def __init__(self) -> None:
        super().__init__(Tensor.relu)


class GELU(Activation):
    """The tanh form, or with ``exact`` the one with erf."""

    def __init__(self, exact: bool = False) -> None:
        super().__init__(Tensor.gelu_exact if exact else Tensor.gelu)


class SiLU(Activation):
    def __init__(self) -> None:
        super().__init__(Tensor.silu)


class Sigmoid(Activation):
    def __init__(self) -> None:
        super().__init__(Tensor.sigmoid)


class Tanh(Activation):
    def __init__(self) -> None:
        super().__init__(Tensor.tanh)


class Sequential(Module):
    """Layers applied one after the other."""

    def __init__(self, *layers: Module) -> None:
        self.layers = list(layers)

    def forward(self, x: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return as_tensor(x)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, position: int) -> Module:
        return self.layers[position]
