"""Graphs as JSON: their own reader, which trusts nothing, and their writer.

    {"inputs": {"x": {"shape": [4, 3], "dtype": "float32"}},
     "nodes": [{"name": "v1", "op": "reduce", "inputs": ["x"], "attrs": {"kind": "sum", "axes": [1]}}],
     "targets": ["v1"]}

``op`` is a primitive of ``core.ops``, ``attrs`` are its row's by their names, ``inputs`` name inputs of the
graph or earlier nodes. A constant has the attributes ``value`` and ``dtype``.

Loops and conditions hold regions among their attributes, which name what they take and give, and see nothing
from outside. What a region takes has the shapes and dtypes of the node's inputs, in their order:

    {"name": "v2", "op": "loop", "inputs": ["x", "w"], "attrs": {"limit": 5, "save": "every", "body": {
        "turn": "t", "carries": ["c"], "constants": ["k"],
        "nodes": [{"name": "n", "op": "mul", "inputs": ["c", "k"]}], "next": ["n"]}}},
    {"name": "v3", "op": "item", "inputs": ["v2"], "attrs": {"index": 1}}

A body may have ``slices`` and a ``stop``; branches of a condition have ``operands``, ``nodes`` and
``results``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from engine.core import build, ops  # noqa: F401  ops fills OPS
from engine.core.dtype import DType, int64
from engine.core.node import Node
from engine.core.opdef import OPS, make
from engine.core.region import LoopBody, Region, params_like, results
from engine.core.shapes import check_sizes
from engine.core.walk import post_order
from engine.graph_fields import (
    ATTRIBUTES,
    MOST_AXES,
    GraphFormatError,
    read_dtype,
    read_known,
    read_list,
    read_name,
    read_object,
    read_sizes,
    shown,
)
from engine.named_graph import NamedGraph

MOST_NODES = 4_096  # those of regions included
MOST_REGIONS = 256  # each may be built by itself
MOST_DEPTH = 4  # of regions within regions
MOST_INPUTS = 256
_REGIONS = ("body", "then", "otherwise")


# ---- reading


def read_graph(document: Any) -> NamedGraph:
    """The graph that JSON describes. Raises GraphFormatError."""
    fields = read_object(document, "", {"inputs", "nodes", "targets"})
    found: dict[str, Node] = {}
    inputs = read_object(fields["inputs"], "inputs")
    if not 1 <= len(inputs) <= MOST_INPUTS:
        raise GraphFormatError("inputs", f"{len(inputs)} inputs; there must be from 1 to {MOST_INPUTS}")
    for name, form in inputs.items():
        path = f"inputs.{read_name(name, 'inputs', found)}"
        parts = read_object(form, path, {"shape", "dtype"})
        shape = read_sizes(parts["shape"], f"{path}.shape")
        found[name] = build.input(shape, read_dtype(parts["dtype"], f"{path}.dtype"))
    named = dict(found)
    _Nodes().read(fields["nodes"], "nodes", found)
    targets = _values(fields["targets"], "targets", found)
    if not 1 <= len(targets) <= MOST_INPUTS or len(set(targets)) < len(targets):
        raise GraphFormatError("targets", f"from 1 to {MOST_INPUTS} different names must be given")
    return NamedGraph(named, dict(zip(fields["targets"], targets, strict=True)))


class _Nodes:
    """Reads the nodes of a graph and of the regions in it, and counts them."""

    def __init__(self) -> None:
        self._count = 0
        self._regions = 0
        self._depth = 0

    def read(self, value: Any, path: str, found: dict[str, Node]) -> None:
        """Adds a list of nodes to those ``found`` before."""
        nodes = read_list(value, path)
        self._count += len(nodes)
        if self._count > MOST_NODES:
            raise GraphFormatError(path, f"{self._count} nodes are too many; at most {MOST_NODES}")
        for place, each in enumerate(nodes):
            at = f"{path}.{place}"
            parts = read_object(each, at, {"name", "op"}, {"inputs", "attrs"})
            name = read_name(parts["name"], f"{at}.name", found)
            found[name] = self._node(parts, at, found)

    def _node(self, parts: Mapping[str, Any], path: str, found: Mapping[str, Node]) -> Node:
        op = parts["op"]
        row = OPS.get(op) if isinstance(op, str) else None
        if row is None or not _is_written(op):
            raise GraphFormatError(
                f"{path}.op", f"{shown(op)} must be one of {', '.join(filter(_is_written, OPS))}"
            )
        names = read_list(parts.get("inputs", []), f"{path}.inputs")
        if row.arity not in (None, len(names)) or len(names) > MOST_INPUTS:
            raise GraphFormatError(f"{path}.inputs", f"{op} takes {row.arity} inputs, got {len(names)}")
        inputs = (_values if op != "item" else _regions)(names, f"{path}.inputs", found)
        wanted = ("value", "dtype") if op == "constant" else row.attrs
        attrs = read_object(parts.get("attrs", {}), f"{path}.attrs", set(wanted))
        values = [self._attribute(name, attrs[name], f"{path}.attrs.{name}", inputs) for name in wanted]
        with _refused(path):
            node = _constant(*values) if op == "constant" else make(op, inputs, *values)
            shapes = [shape for shape, _ in results(node)] if row.kind == "region" else [node.shape]
            for shape in shapes:
                if len(check_sizes(shape)) > MOST_AXES:
                    raise ValueError(f"a result has {len(shape)} axes; at most {MOST_AXES}")
        return node

    def _attribute(self, name: str, value: Any, path: str, inputs: tuple[Node, ...]) -> Any:
        if name not in _REGIONS:
            return ATTRIBUTES[name](value, path)
        self._regions += 1
        if self._regions > MOST_REGIONS:
            raise GraphFormatError(path, f"there are too many bodies and branches; at most {MOST_REGIONS}")
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise GraphFormatError(path, f"regions nest too deep; at most {MOST_DEPTH} within each other")
        region = self._body(value, path, inputs) if name == "body" else self._branch(value, path, inputs)
        self._depth -= 1
        return region

    def _body(self, value: Any, path: str, inputs: tuple[Node, ...]) -> LoopBody:
        """One turn; ``inputs`` may begin with the number of turns."""
        parts = read_object(
            value, path, {"turn", "carries", "constants", "nodes", "next"}, {"slices", "stop"}
        )
        carries, constants = (read_list(parts[own], f"{path}.{own}") for own in ("carries", "constants"))
        taken = len(carries) + len(constants)
        if len(inputs) - taken not in (0, 1):
            raise GraphFormatError(
                path, f"{taken} carries and constants for {len(inputs)} inputs; one input more counts turns"
            )
        first, last = len(inputs) - taken, len(inputs) - len(constants)
        found: dict[str, Node] = {}
        (turn,) = _params([parts["turn"]], f"{path}.turn", [build.input((), int64)], found)
        own_carries = _params(carries, f"{path}.carries", inputs[first:last], found)
        own_constants = _params(constants, f"{path}.constants", inputs[last:], found)
        self.read(parts["nodes"], f"{path}.nodes", found)
        stop = _values([parts["stop"]] if "stop" in parts else [], f"{path}.stop", found)
        after, slices = (_values(parts.get(own, []), f"{path}.{own}", found) for own in ("next", "slices"))
        with _refused(path):
            return LoopBody(turn, own_carries, own_constants, after, slices, *stop)

    def _branch(self, value: Any, path: str, inputs: tuple[Node, ...]) -> Region:
        """One branch of a condition; ``inputs`` begin with the predicate."""
        parts = read_object(value, path, {"operands", "nodes", "results"})
        operands = read_list(parts["operands"], f"{path}.operands")
        if len(operands) != len(inputs) - 1:
            raise GraphFormatError(
                path, f"{len(operands)} operands for {len(inputs)} inputs; the first is the predicate"
            )
        found: dict[str, Node] = {}
        params = _params(operands, f"{path}.operands", inputs[1:], found)
        self.read(parts["nodes"], f"{path}.nodes", found)
        return Region(params, _values(parts["results"], f"{path}.results", found))


def _params(
    names: Sequence[Any], path: str, like: Sequence[Node], found: dict[str, Node]
) -> tuple[Node, ...]:
    """What a region takes: inputs of these names with the shapes and dtypes of ``like``."""
    params = params_like(like)
    for name, param in zip(names, params, strict=True):
        found[read_name(name, path, found)] = param
    return tuple(params)


def _values(value: Any, path: str, found: Mapping[str, Node]) -> tuple[Node, ...]:
    """Inputs and earlier nodes by their names."""
    nodes = _regions(value, path, found)
    for k, node in enumerate(nodes):
        if OPS[node.op].kind == "region":
            raise GraphFormatError(f"{path}.{k}", f"only item nodes read the results of a {node.op}")
    return nodes


def _regions(value: Any, path: str, found: Mapping[str, Node]) -> tuple[Node, ...]:
    """The same, where regions may be among them."""
    return tuple(
        [found[read_known(name, f"{path}.{k}", found)] for k, name in enumerate(read_list(value, path))]
    )


@contextmanager
def _refused(path: str) -> Iterator[None]:
    """Turns what the table of primitives refuses inside into a GraphFormatError."""
    try:
        yield
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise GraphFormatError(path, str(error)) from error


def _constant(value: float, dtype: DType) -> Node:
    if not dtype.is_float and value != int(value):
        raise ValueError(f"{value} is not {dtype}")
    return build.constant(value, dtype)


def _is_written(op: str) -> bool:
    """Whether JSON can hold nodes of a primitive."""
    return op == "constant" or (
        op not in ("input", "parameter") and set(OPS[op].attrs) <= {*ATTRIBUTES, *_REGIONS}
    )


# ---- writing


def write_graph(graph: NamedGraph) -> dict[str, Any]:
    """The JSON of a graph whose sizes are known; ``read_graph`` gives an equal one back.

    Nodes are called v0, v1, … in the order of their computation. Raises ValueError for what JSON can't hold:
    other leaves than inputs and constants, and loops without a limit of turns.
    """
    names = {node: name for name, node in graph.inputs.items()}
    nodes = _written_nodes(post_order(list(graph.targets.values())), names)
    inputs = {
        name: {"shape": list(node.shape), "dtype": node.dtype.name} for name, node in graph.inputs.items()
    }
    targets = list(dict.fromkeys(names[node] for node in graph.targets.values()))
    return {"inputs": inputs, "nodes": nodes, "targets": targets}


def _written_nodes(order: Sequence[Node], names: dict[Node, str]) -> list[dict[str, Any]]:
    """The nodes that have no names yet, which they are given."""
    taken = set(names.values())
    fresh = (name for name in map("v{}".format, count()) if name not in taken)
    nodes = []
    for node in order:
        if node in names:
            continue
        if not _is_written(node.op) or (node.op == "loop" and node.attrs[1] is None):
            raise ValueError(f"{node} is no node that JSON can hold")
        names[node] = next(fresh)
        entry: dict[str, Any] = {"name": names[node], "op": node.op}
        if node.inputs:
            entry["inputs"] = [names[x] for x in node.inputs]
        if node.attrs:
            entry["attrs"] = _written_attrs(node)
        nodes.append(entry)
    return nodes


def _written_region(region: Region) -> dict[str, Any]:
    names = {node: name for name, node in region.named_params().items()}
    nodes = _written_nodes(region.nodes, names)

    def own(values: Sequence[Node]) -> list[str]:
        return [names[node] for node in values]

    if not isinstance(region, LoopBody):
        return {"operands": own(region.params), "nodes": nodes, "results": own(region.outs)}
    written = {
        "turn": names[region.turn],
        "carries": own(region.carries),
        "constants": own(region.constants),
        "nodes": nodes,
        "next": own(region.next),
        "slices": own(region.slices),
    }
    return written if region.stop is None else {**written, "stop": names[region.stop]}


def _written_attrs(node: Node) -> dict[str, Any]:
    if node.op == "constant":
        value = node.dtype.decode(node.attrs[0])
        return {"value": value if math.isfinite(value) else str(value), "dtype": node.dtype.name}
    return {name: _written(value) for name, value in zip(OPS[node.op].attrs, node.attrs, strict=True)}


def _written(value: Any) -> Any:
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Region):
        return _written_region(value)
    return list(value) if isinstance(value, tuple) else value
