"""Graphs as JSON: their own reader, which trusts nothing, and their writer.

    {"inputs": {"x": {"shape": [4, 3], "dtype": "float32"}},
     "nodes": [{"name": "v1", "op": "reduce", "inputs": ["x"], "attrs": {"kind": "sum", "axes": [1]}}],
     "targets": ["v1"]}

``op`` is a primitive of ``core.ops``, ``attrs`` are its row's by their names, ``inputs`` name inputs of the
graph or earlier nodes. A constant has the attributes ``value`` and ``dtype``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from itertools import count
from typing import Any

from engine.core import build, ops  # noqa: F401  ops fills OPS
from engine.core.dtype import BY_NAME, DType
from engine.core.node import Node
from engine.core.opdef import OPS, make
from engine.core.shapes import check_sizes
from engine.core.walk import post_order
from engine.errors import EngineError

MOST_NODES = 4_096
MOST_INPUTS = 256
MOST_AXES = 8
_NAME_LENGTH = 64
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class GraphFormatError(EngineError, ValueError):
    """JSON that is no graph: ``path`` leads to what is wrong, as in ``nodes.3.attrs.axes``."""

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(f"{path or 'the graph'}: {rule}")
        self.path = path
        self.rule = rule


@dataclass(frozen=True, slots=True)
class NamedGraph:
    """Inputs and targets of a graph by their names."""

    inputs: Mapping[str, Node]
    targets: Mapping[str, Node]


# ---- reading


def read_graph(document: Any) -> NamedGraph:
    """The graph that JSON describes. Raises GraphFormatError."""
    fields = _object(document, "", {"inputs", "nodes", "targets"})
    found: dict[str, Node] = {}
    inputs = _object(fields["inputs"], "inputs")
    if not 1 <= len(inputs) <= MOST_INPUTS:
        raise GraphFormatError("inputs", f"{len(inputs)} inputs; there must be from 1 to {MOST_INPUTS}")
    for name, form in inputs.items():
        path = f"inputs.{_name(name, 'inputs', found)}"
        parts = _object(form, path, {"shape", "dtype"})
        shape = _sizes(parts["shape"], f"{path}.shape")
        found[name] = build.input(shape, _dtype(parts["dtype"], f"{path}.dtype"))
    named = dict(found)
    nodes = _list(fields["nodes"], "nodes")
    if len(nodes) > MOST_NODES:
        raise GraphFormatError("nodes", f"{len(nodes)} nodes are too many; at most {MOST_NODES}")
    for place, each in enumerate(nodes):
        path = f"nodes.{place}"
        parts = _object(each, path, {"name", "op"}, {"inputs", "attrs"})
        name = _name(parts["name"], f"{path}.name", found)
        found[name] = _node(parts, path, found)
    targets = [
        _known(name, f"targets.{k}", found) for k, name in enumerate(_list(fields["targets"], "targets"))
    ]
    if not 1 <= len(targets) <= MOST_INPUTS or len(set(targets)) < len(targets):
        raise GraphFormatError("targets", f"from 1 to {MOST_INPUTS} different names must be given")
    return NamedGraph(named, {name: found[name] for name in targets})


def _node(parts: Mapping[str, Any], path: str, found: Mapping[str, Node]) -> Node:
    op = parts["op"]
    row = OPS.get(op) if isinstance(op, str) else None
    if row is None or not _is_written(op):
        raise GraphFormatError(
            f"{path}.op", f"{_shown(op)} must be one of {', '.join(filter(_is_written, OPS))}"
        )
    names = _list(parts.get("inputs", []), f"{path}.inputs")
    if row.arity not in (None, len(names)) or len(names) > MOST_INPUTS:
        raise GraphFormatError(f"{path}.inputs", f"{op} takes {row.arity} inputs, got {len(names)}")
    inputs = tuple([found[_known(name, f"{path}.inputs.{k}", found)] for k, name in enumerate(names)])
    wanted = ("value", "dtype") if op == "constant" else row.attrs
    attrs = _object(parts.get("attrs", {}), f"{path}.attrs", set(wanted))
    values = [_ATTRIBUTES[name](attrs[name], f"{path}.attrs.{name}") for name in wanted]
    try:
        node = _constant(*values) if op == "constant" else make(op, inputs, *values)
        check_sizes(node.shape)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise GraphFormatError(path, str(error)) from error
    if len(node.shape) > MOST_AXES:
        raise GraphFormatError(path, f"the result has {len(node.shape)} axes; at most {MOST_AXES}")
    return node


def _constant(value: float, dtype: DType) -> Node:
    if not dtype.is_float and value != int(value):
        raise ValueError(f"{value} is not {dtype}")
    return build.constant(value, dtype)


def _is_written(op: str) -> bool:
    """Whether JSON can hold nodes of a primitive."""
    return op == "constant" or (op not in ("input", "parameter") and set(OPS[op].attrs) <= set(_ATTRIBUTES))


# ---- parts of the JSON


def _object(
    value: Any, path: str, required: Set[str] | None = None, optional: Set[str] = frozenset()
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise GraphFormatError(path, f"{_shown(value)} must be an object")
    if required is None:
        return value
    missing, unknown = sorted(required - value.keys()), sorted(map(str, value.keys() - required - optional))
    if missing:
        raise GraphFormatError(path, f"{', '.join(missing)} must be given")
    if unknown:
        allowed = ", ".join(sorted(required | optional)) or "none"
        raise GraphFormatError(path, f"{_shown(unknown[0])} is not known here; known: {allowed}")
    return value


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise GraphFormatError(path, f"{_shown(value)} must be a list")
    return value


def _name(value: Any, path: str, taken: Mapping[str, Node]) -> str:
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= _NAME_LENGTH
        or not value.isidentifier()
        or not value.isascii()
    ):
        raise GraphFormatError(
            path, f"{_shown(value)} must be a name of at most {_NAME_LENGTH} ASCII letters, digits and _"
        )
    if value in taken:
        raise GraphFormatError(path, f"the name {value} is given twice")
    return value


def _known(value: Any, path: str, found: Mapping[str, Node]) -> str:
    if not isinstance(value, str) or value not in found:
        raise GraphFormatError(path, f"{_shown(value)} must be an input or an earlier node")
    return value


def _integer(value: Any, path: str) -> int:
    if type(value) is not int or not -(2**62) <= value <= 2**62:
        raise GraphFormatError(path, f"{_shown(value)} must be a whole number")
    return value


def _integers(value: Any, path: str) -> tuple[int, ...]:
    items = _list(value, path)
    if len(items) > MOST_AXES:
        raise GraphFormatError(path, f"{len(items)} entries; there are at most {MOST_AXES} axes")
    return tuple([_integer(item, f"{path}.{k}") for k, item in enumerate(items)])


def _sizes(value: Any, path: str) -> tuple[int, ...]:
    sizes = _integers(value, path)
    try:
        check_sizes(sizes)
    except ValueError as error:
        raise GraphFormatError(path, str(error)) from error
    return sizes


def _dtype(value: Any, path: str) -> DType:
    if not isinstance(value, str) or value not in BY_NAME:
        raise GraphFormatError(path, f"{_shown(value)} must be one of {', '.join(BY_NAME)}")
    return BY_NAME[value]


def _word(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise GraphFormatError(path, f"{_shown(value)} must be a word")
    return value


def _flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise GraphFormatError(path, f"{_shown(value)} must be true or false")
    return value


def _number(value: Any, path: str) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if not isinstance(value, int | float) or abs(value) > 2**1000:
        raise GraphFormatError(path, f"{_shown(value)} must be a number, or one of {', '.join(_NOT_FINITE)}")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


_ATTRIBUTES: dict[str, Callable[[Any, str], Any]] = {
    "shape": _sizes,
    "axis": _integer,
    "axes": _integers,
    "perm": _integers,
    "starts": _integers,
    "sizes": _integers,
    "steps": _integers,
    "low": _integers,
    "high": _integers,
    "dtype": _dtype,
    "kind": _word,
    "mode": _word,
    "reverse": _flag,
    "value": _number,
}


# ---- writing


def write_graph(graph: NamedGraph) -> dict[str, Any]:
    """The JSON of a graph whose sizes are known; ``read_graph`` gives an equal one back.

    Nodes are called v0, v1, … in the order of their computation. Raises ValueError for a primitive that JSON
    can't hold.
    """
    names = {node: name for name, node in graph.inputs.items()}
    fresh = (name for name in map("v{}".format, count()) if name not in graph.inputs)
    nodes = []
    for node in post_order(list(graph.targets.values())):
        if node in names:
            continue
        if not _is_written(node.op):
            raise ValueError(f"{node} is no primitive that JSON can hold")
        names[node] = next(fresh)
        entry: dict[str, Any] = {"name": names[node], "op": node.op}
        if node.inputs:
            entry["inputs"] = [names[x] for x in node.inputs]
        if node.attrs:
            entry["attrs"] = _written_attrs(node)
        nodes.append(entry)
    inputs = {
        name: {"shape": list(node.shape), "dtype": node.dtype.name} for name, node in graph.inputs.items()
    }
    targets = list(dict.fromkeys(names[node] for node in graph.targets.values()))
    return {"inputs": inputs, "nodes": nodes, "targets": targets}


def _written_attrs(node: Node) -> dict[str, Any]:
    if node.op == "constant":
        value = node.dtype.decode(node.attrs[0])
        return {"value": value if math.isfinite(value) else str(value), "dtype": node.dtype.name}
    return {name: _written(value) for name, value in zip(OPS[node.op].attrs, node.attrs, strict=True)}


def _written(value: Any) -> Any:
    if isinstance(value, DType):
        return value.name
    return list(value) if isinstance(value, tuple) else value
