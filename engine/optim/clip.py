"""Bounds on gradients, applied between ``backward`` and ``step``."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.dtype import float32
from engine.nn.module import Parameter
from engine.tensor import Tensor, no_grad, stack, where


def clip_grad_norm_(parameters: Iterable[Parameter], max_norm: float) -> Tensor:
    """Scales all gradients by one factor so that their joint 2-norm is at most ``max_norm``; returns the old.

    The norm is float32 (). One that is infinite or NaN scales nothing: such gradients have no direction to
    keep.
    """
    if not max_norm > 0.0:
        raise ValueError(f"max_norm is {max_norm}; it must be positive")
    held = [parameter for parameter in parameters if parameter.grad is not None]
    norm = grad_norm(held)
    with no_grad():
        exceeds = (norm > max_norm) & (norm < float("inf"))
        factor = where(exceeds, max_norm / norm, 1.0)
        for parameter in held:
            gradient = _gradient(parameter)
            parameter.grad = gradient * factor.astype(gradient.dtype)
    return norm


def grad_norm(parameters: Iterable[Parameter]) -> Tensor:
    """The 2-norm of all gradients taken together, float32 (); 0 without any."""
    with no_grad():
        squares = [
            (gradient * gradient).sum().astype(float32)
            for gradient in (_gradient(parameter) for parameter in parameters if parameter.grad is not None)
        ]
        return stack(squares).sum().sqrt() if squares else Tensor(0.0)


def clip_grad_value_(parameters: Iterable[Parameter], max_value: float) -> None:
    """Moves every element of every gradient into [-max_value, max_value]."""
    if not max_value > 0.0:
        raise ValueError(f"max_value is {max_value}; it must be positive")
    with no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad = _gradient(parameter).clamp(-max_value, max_value)


def _gradient(parameter: Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad.detach()
