"""Programs: what a compile spec asks for, as graphs with the names of their inputs and targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine import Graph
from engine.core.dtype import by_name
from engine.core.node import Node
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.expression import Expression, parse
from engine.expression.presets import PRESETS
from engine.expression.record import tensor_of
from engine.expression.tensors import FUNCTIONS, Kind
from engine.graph_json import read_graph
from engine.named_graph import NamedGraph
from engine.random import Generator, derived_seed


@dataclass(frozen=True)
class Program:
    """A graph to compile, and the expression it was recorded from, if from one.

    ``below`` bounds the integers that are drawn. ``ladder``: products in plain C are timed beside it.
    """

    name: str
    graph: NamedGraph
    expression: Expression | None
    gradients: bool
    below: Mapping[str, int]
    ladder: bool = False

    @property
    def nodes(self) -> list[Node]:
        """The targets, in their order."""
        return list(self.graph.targets.values())


def programs(spec: Mapping[str, Any]) -> list[Program]:
    """The programs of a prepared spec, which has been checked."""
    gradients = spec["gradients"]
    if spec["preset"] is not None:
        return [
            _recorded(own.name, own.expression, own.inputs, gradients, ladder=own.ladder and not gradients)
            for own in PRESETS[spec["preset"]]
        ]
    if spec["graph"] is not None:
        return [_read(spec["graph"], gradients)]
    kinds = {name: Kind(tuple(own["shape"]), by_name(own["dtype"])) for name, own in spec["inputs"].items()}
    below = {name: own["below"] for name, own in spec["inputs"].items()}
    return [_recorded("", spec["expression"], kinds, gradients, below=below)]


def _recorded(
    name: str,
    text: str,
    kinds: Mapping[str, Kind],
    gradients: bool,
    *,
    below: Mapping[str, int] | None = None,
    ladder: bool = False,
) -> Program:
    expression = parse(text, kinds, FUNCTIONS)
    graph = Graph()
    with graph:
        inputs = {own: graph.input(own, kind.shape, kind.dtype) for own, kind in kinds.items()}
        result = tensor_of(expression, inputs)
    nodes = {own: x.node for own, x in inputs.items()}
    named = NamedGraph(nodes, {"result": result.node})
    return Program(name, _asked(named, gradients), expression, gradients, below or {}, ladder)


def _read(document: Mapping[str, Any], gradients: bool) -> Program:
    graph = read_graph(document)
    reached = set(post_order(list(graph.targets.values())))
    inputs = {name: node for name, node in graph.inputs.items() if node in reached}
    return Program("", _asked(NamedGraph(inputs, graph.targets), gradients), None, gradients, {})


def _asked(graph: NamedGraph, gradients: bool) -> NamedGraph:
    return graph.with_gradients() if gradients else graph


def values_of(program: Program, seed: int) -> dict[str, Array]:
    """The same values for the same seed: normal floats, integers from 0 below their bound, bools."""
    return {
        name: _drawn(node, derived_seed(seed, place), program.below.get(name, 2))
        for place, (name, node) in enumerate(program.graph.inputs.items())
    }


def _drawn(node: Node, seed: int, below: int) -> Array:
    generator = Generator(seed)
    shape: Any = node.shape
    if node.dtype.is_float:
        return generator.normal(shape, dtype=node.dtype)._value
    return (generator.bits(shape) % below).astype(node.dtype)._value
