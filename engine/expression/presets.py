"""Expressions with a name, for compile jobs.

``forge`` is the benchmark table of Forge 0.3.0's README: a chain that fuses at three sizes, square products
with the ladder that leads to a fast one, and a perceptron of four layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.dtype import float32
from engine.expression.tensors import Kind


@dataclass(frozen=True, slots=True)
class Subject:
    """An expression over inputs of these kinds. ``ladder``: plain C products are timed beside it."""

    name: str
    expression: str
    inputs: Mapping[str, Kind]
    ladder: bool = False


def _chain(label: str, elements: int) -> Subject:
    kind = Kind((elements,), float32)
    return Subject(f"fusion {label}", "relu(a + b) * c", dict.fromkeys("abc", kind))


def _product(side: int) -> Subject:
    kind = Kind((side, side), float32)
    return Subject(f"matmul {side}", "a @ b", dict.fromkeys("ab", kind), ladder=True)


def _perceptron(layers: int, width: int) -> Subject:
    text, inputs = "x", {"x": Kind((width, width), float32)}
    for layer in range(1, layers + 1):
        text = f"relu({text} @ w{layer} + b{layer})"
        inputs |= {f"w{layer}": Kind((width, width), float32), f"b{layer}": Kind((width,), float32)}
    return Subject(f"mlp {layers}x{width}", text, inputs)


PRESETS: dict[str, tuple[Subject, ...]] = {
    "forge": (
        _chain("100k", 100_000),
        _chain("4M", 4_000_000),
        _chain("16M", 16_000_000),
        _product(256),
        _product(512),
        _product(768),
        _perceptron(4, 256),
    )
}
