"""Graphs whose inputs and targets have names, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.autodiff.differentiate import differentiate
from engine.core.node import Node


@dataclass(frozen=True, slots=True)
class NamedGraph:
    """Inputs and targets of a graph by their names."""

    inputs: Mapping[str, Node]
    targets: Mapping[str, Node]

    def with_gradients(self) -> NamedGraph:
        """The same with one more target for each float input: the gradient of the sum of float targets."""
        floats = {name: node for name, node in self.inputs.items() if node.dtype.is_float}
        outputs = [node for node in self.targets.values() if node.dtype.is_float]
        found = differentiate(outputs, list(floats.values()))
        gradients = {f"gradient of {name}": node for name, node in zip(floats, found, strict=True)}
        return NamedGraph(self.inputs, {**self.targets, **gradients})
