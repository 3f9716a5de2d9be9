"""Gradients against difference quotients, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import cos, isfinite, isnan, prod
from typing import TypeAlias, cast

from engine.autodiff.differentiate import differentiate
from engine.core import build as b
from engine.core.dtype import float64
from engine.core.node import Node
from engine.devices.array import Array
from engine.devices.device import Device
from engine.devices.evaluate import evaluate
from engine.errors import GradientError

Record: TypeAlias = Callable[[Sequence[Array]], tuple[Sequence[Node], Node]]
"""From the values of the inputs to their leaf nodes and the node of the function's result."""
_RecordMany: TypeAlias = Callable[[Sequence[Array]], tuple[Sequence[Node], list[Node]]]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Two numbers agree when they differ by at most ``atol`` + ``rtol`` times the larger.

    A difference quotient steps ``eps`` times the element, or ``eps`` where that is more, to both sides.
    """

    eps: float = 1e-6
    rtol: float = 1e-5
    atol: float = 1e-7

    def agree(self, a: float, b: float) -> bool:
        """NaN agrees with NaN, and an infinity with itself."""
        if not (isfinite(a) and isfinite(b)):
            return a == b or (isnan(a) and isnan(b))
        return abs(a - b) <= self.atol + self.rtol * max(abs(a), abs(b))


USUAL = Tolerance()


def check_gradients(
    record: Record, inputs: Sequence[Array], device: Device, tolerance: Tolerance = USUAL, order: int = 1
) -> bool:
    """Compares derivatives of the function that ``record`` records with central differences of its values.

    What is differentiated is a fixed weighted sum of the result, so that errors in different elements cannot
    cancel; with ``order`` 2 also a weighted sum of its gradient. Inputs that are not float64 are held
    constant; those that the function does not use have gradient zero. Returns True, or raises GradientError
    naming the input, its element and both numbers.
    """
    if order not in (1, 2):
        raise ValueError(f"order {order} must be 1 or 2")
    _check("gradient", _single(record), inputs, device, tolerance)
    if order == 2:
        _check("second gradient", _gradients(record), inputs, device, tolerance)
    return True


def _check(
    what: str, record: _RecordMany, inputs: Sequence[Array], device: Device, tolerance: Tolerance
) -> None:
    leaves, outputs = record(inputs)
    checked = [i for i, x in enumerate(inputs) if x.dtype is float64]
    seeds = [_weights(output) for output in outputs]
    gradients = evaluate(differentiate(outputs, [leaves[i] for i in checked], seeds), device)
    weights = [weight for seed in seeds for weight in seed.value.flat()]
    for i, gradient in zip(checked, gradients, strict=True):
        values = inputs[i].flat()
        places = product(*map(range, inputs[i].shape))
        for k, (place, given) in enumerate(zip(places, gradient.flat(), strict=True)):
            step = tolerance.eps * max(1.0, abs(values[k]))
            upper, lower = (
                _values(record, device, inputs, i, [*values[:k], values[k] + side, *values[k + 1 :]])
                for side in (step, -step)
            )
            # element by element, so that large elements do not drown the change of small ones
            expected = sum([w * (u - v) for w, u, v in zip(weights, upper, lower, strict=True)]) / (2 * step)
            if not tolerance.agree(given, expected):
                raise GradientError(
                    f"{what} of input {i}, element {place}: {given!r}, but the difference quotient "
                    f"is {expected!r}; they differ by more than {tolerance.atol} + {tolerance.rtol} times "
                    "the larger"
                )


def _values(
    record: _RecordMany, device: Device, inputs: Sequence[Array], changed: int, values: Sequence[float]
) -> list[float]:
    """All elements of all outputs, with ``values`` for one of the inputs."""
    moved = list(inputs)
    moved[changed] = Array.from_list(values, inputs[changed].shape, float64)
    _, outputs = record(moved)
    return [element for array in evaluate(outputs, device) for element in array.flat()]


def _single(record: Record) -> _RecordMany:
    def recorded(inputs: Sequence[Array]) -> tuple[Sequence[Node], list[Node]]:
        leaves, output = record(inputs)
        return leaves, [output]

    return recorded


def _gradients(record: Record) -> _RecordMany:
    def recorded(inputs: Sequence[Array]) -> tuple[Sequence[Node], list[Node]]:
        leaves, output = record(inputs)
        wrt = [leaf for leaf in leaves if leaf.dtype is float64]
        return leaves, differentiate([output], wrt, [_weights(output)])

    return recorded


def _weights(x: Node) -> Node:
    """A constant of x's shape, between 0.5 and 1.5, that no symmetry of x shares."""
    shape = cast("tuple[int, ...]", x.shape)
    weights = b.input(shape, x.dtype)
    weights.value = Array.from_list([1 + cos(i + 1) / 2 for i in range(prod(shape))], shape, x.dtype)
    return weights
