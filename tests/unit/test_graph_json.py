"""Graphs as JSON: every primitive is read back as it was written, and hostile JSON is refused by its path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.core import build
from engine.core.dtype import float32, float64, int64
from engine.core.node import Node
from engine.core.opdef import OPS, Case, make
from engine.core.region import LoopBody
from engine.core.walk import post_order
from engine.core.work import work_of
from engine.graph_fields import GraphFormatError
from engine.graph_json import read_graph, write_graph
from engine.named_graph import NamedGraph

SIMPLE = {
    "inputs": {"x": {"shape": [4, 3], "dtype": "float32"}},
    "nodes": [
        {"name": "half", "op": "constant", "attrs": {"value": 0.5, "dtype": "float32"}},
        {"name": "wide", "op": "broadcast", "inputs": ["half"], "attrs": {"shape": [4, 3]}},
        {"name": "product", "op": "mul", "inputs": ["x", "wide"]},
        {"name": "sums", "op": "reduce", "inputs": ["product"], "attrs": {"kind": "sum", "axes": [1]}},
    ],
    "targets": ["sums", "x"],
}


def table(targets: list[Node], inputs: dict[str, Node]) -> list[tuple[Any, ...]]:
    """A graph in numbers, so that equal graphs compare equal."""
    order = post_order(targets)
    names = {node: name for name, node in inputs.items()}
    place = {node: names.get(node, k) for k, node in enumerate(order)}
    return [
        (n.op, [place[x] for x in n.inputs], n.attrs, n.shape, n.dtype, n in targets)
        for n in order
        if n not in names
    ]


def test_a_graph_is_read_and_written() -> None:
    graph = read_graph(SIMPLE)
    assert list(graph.inputs) == ["x"] and list(graph.targets) == ["sums", "x"]
    assert graph.targets["sums"].shape == (4,) and graph.targets["sums"].dtype is float32
    again = read_graph(json.loads(json.dumps(write_graph(graph))))
    assert table(list(again.targets.values()), dict(again.inputs)) == table(
        list(graph.targets.values()), dict(graph.inputs)
    )


def cases() -> list[tuple[str, Case]]:
    return [(name, case) for name, row in OPS.items() for case in row.samples if isinstance(case, Case)]


@pytest.mark.parametrize(("op", "case"), cases(), ids=lambda each: each if isinstance(each, str) else "")
def test_every_primitive_with_attributes_comes_back(op: str, case: Case) -> None:
    inputs = {}
    for k, operand in enumerate(case.operands):
        shape = operand if isinstance(operand, tuple) else shape_of(operand.data)
        dtype = float64 if isinstance(operand, tuple) else operand.dtype
        inputs[f"x{k}"] = build.input(shape, dtype)
    node = make(op, tuple(inputs.values()), *case.attrs)
    again = read_graph(
        json.loads(
            json.dumps(write_graph(NamedGraph(inputs or {"x": build.input((), float32)}, {"y": node})))
        )
    )
    assert table(list(again.targets.values()), dict(again.inputs)) == table([node], inputs)


def shape_of(data: Any) -> tuple[int, ...]:
    return (len(data), *shape_of(data[0])) if isinstance(data, tuple) else ()


@pytest.mark.parametrize("value", [0.1, -0.0, 1e-45, "inf", "-inf", "nan", 3])
def test_constants_keep_their_bits(value: Any) -> None:
    document = {
        "inputs": {"x": {"shape": [], "dtype": "float32"}},
        "nodes": [{"name": "c", "op": "constant", "attrs": {"value": value, "dtype": "float32"}}],
        "targets": ["c"],
    }
    graph = read_graph(document)
    again = read_graph(json.loads(json.dumps(write_graph(graph))))
    (one,), (other,) = graph.targets.values(), again.targets.values()
    assert one.attrs == other.attrs == (float32.encode(float(value)),)


def test_names_that_are_taken_are_not_given_to_nodes() -> None:
    v0 = build.input((2,), float32)
    written = write_graph(NamedGraph({"v0": v0}, {"y": build.neg(v0)}))
    assert written["nodes"] == [{"name": "v1", "op": "neg", "inputs": ["v0"]}]


def test_the_work_of_a_graph_counts_operations_and_bytes() -> None:
    x = build.input((64, 32), float32)
    y = build.dot(x, build.transpose(x, (1, 0)))
    work = work_of([y])
    assert work.flops == 2 * 64 * 64 * 32 and work.nbytes == 4 * (2 * 64 * 32 + 64 * 64)


LOOPED = {
    "inputs": {"x": {"shape": [4, 3], "dtype": "float32"}, "w": {"shape": [3], "dtype": "float32"}},
    "nodes": [
        {"name": "count", "op": "constant", "attrs": {"value": 7, "dtype": "int64"}},
        {
            "name": "path",
            "op": "loop",
            "inputs": ["count", "x", "w"],
            "attrs": {
                "limit": 5,
                "save": "every",
                "body": {
                    "turn": "t",
                    "carries": ["c"],
                    "constants": ["k"],
                    "nodes": [
                        {"name": "wide", "op": "broadcast", "inputs": ["k"], "attrs": {"shape": [4, 3]}},
                        {"name": "next", "op": "mul", "inputs": ["c", "wide"]},
                        {"name": "stops", "op": "lt", "inputs": ["next", "c"]},
                    ],
                    "next": ["next"],
                    "slices": ["wide"],
                    "stop": "stops",
                },
            },
        },
        {"name": "ends", "op": "item", "inputs": ["path"], "attrs": {"index": 1}},
        {"name": "all", "op": "item", "inputs": ["path"], "attrs": {"index": 2}},
        {"name": "high", "op": "reduce", "inputs": ["ends"], "attrs": {"kind": "sum", "axes": [0, 1]}},
        {"name": "pred", "op": "lt", "inputs": ["high", "high"]},
        {
            "name": "either",
            "op": "cond",
            "inputs": ["pred", "x"],
            "attrs": {
                "then": {"operands": ["a"], "nodes": [], "results": ["a", "a"]},
                "otherwise": {
                    "operands": ["a"],
                    "nodes": [{"name": "b", "op": "exp", "inputs": ["a"]}],
                    "results": ["b", "a"],
                },
            },
        },
        {"name": "y", "op": "item", "inputs": ["either"], "attrs": {"index": 0}},
    ],
    "targets": ["ends", "all", "y"],
}


def test_loops_and_conditions_are_read_and_written() -> None:
    graph = read_graph(LOOPED)
    assert [node.shape for node in graph.targets.values()] == [(4, 3), (5, 4, 3), (4, 3)]
    again = read_graph(json.loads(json.dumps(write_graph(graph))))
    assert table(list(again.targets.values()), dict(again.inputs)) == table(
        list(graph.targets.values()), dict(graph.inputs)
    )


def test_the_work_of_a_loop_is_that_of_its_turns() -> None:
    ends = read_graph(LOOPED).targets["ends"]
    shorter = json.loads(json.dumps(LOOPED))
    shorter["nodes"][1]["attrs"]["limit"] = 1
    work, once = work_of([ends]), work_of([read_graph(shorter).targets["ends"]])
    assert work.flops - once.flops == 4 * (2 * 12 + 5 * 400_000 + 12 * 5_000)
    assert work.nbytes - once.nbytes == 4 * (48 + 512)
    assert work_of([read_graph(LOOPED).targets["y"]]).flops > work.flops + 12 * 16


def test_loops_of_any_number_of_turns_are_not_written_or_priced() -> None:
    x, count = build.input((2,), float32), build.input((), int64)
    turn, carry = build.input((), int64), build.input((2,), float32)
    body = LoopBody(turn, [carry], [], [build.neg(carry)])
    y = build.item(build.loop(body, (x,), (), None, count), 1)
    with pytest.raises(ValueError, match="no node that JSON can hold"):
        write_graph(NamedGraph({"x": x, "count": count}, {"y": y}))
    with pytest.raises(ValueError, match="without a limit of turns"):
        work_of([y])


def changed(path: str, value: Any, document: Any = SIMPLE) -> dict[str, Any]:
    document = json.loads(json.dumps(document))
    *steps, last = path.split(".")
    place = document
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place[step]
    place[int(last) if isinstance(place, list) else last] = value
    return dict(document)


@pytest.mark.parametrize(
    ("path", "value", "at"),
    [
        ("inputs", [], "inputs"),
        ("inputs", {}, "inputs"),
        ("inputs", {"a b": {"shape": [], "dtype": "float32"}}, "inputs"),
        ("inputs.x.shape", [-1], "inputs.x.shape"),
        ("inputs.x.shape", [True], "inputs.x.shape.0"),
        ("inputs.x.shape", [1.5], "inputs.x.shape.0"),
        ("inputs.x.shape", [2**60, 2**60], "inputs.x.shape"),
        ("inputs.x.shape", [1] * 9, "inputs.x.shape"),
        ("inputs.x.shape", "4", "inputs.x.shape"),
        ("inputs.x.dtype", "float16", "inputs.x.dtype"),
        ("inputs.x.dtype", ["float32"], "inputs.x.dtype"),
        ("inputs.x.more", 1, "inputs.x"),
        ("nodes", {}, "nodes"),
        ("nodes", [{}] * 5000, "nodes"),
        ("nodes.2", None, "nodes.2"),
        ("nodes.2.op", "input", "nodes.2.op"),
        ("nodes.2.op", "parameter", "nodes.2.op"),
        ("nodes.2.op", "__class__", "nodes.2.op"),
        ("nodes.2.op", {}, "nodes.2.op"),
        ("nodes.2.name", "x", "nodes.2.name"),
        ("nodes.2.name", "a" * 65, "nodes.2.name"),
        ("nodes.2.name", "é", "nodes.2.name"),
        ("nodes.2.inputs", ["x"], "nodes.2.inputs"),
        ("nodes.2.inputs", ["x", "sums"], "nodes.2.inputs.1"),
        ("nodes.2.inputs", ["x", 3], "nodes.2.inputs.1"),
        ("nodes.2.inputs", ["x", "half"], "nodes.2"),
        ("nodes.2.attrs", {"axis": 1}, "nodes.2.attrs"),
        ("nodes.3.attrs", {"kind": "sum"}, "nodes.3.attrs"),
        ("nodes.3.attrs.kind", "product", "nodes.3"),
        ("nodes.3.attrs.kind", 1, "nodes.3.attrs.kind"),
        ("nodes.3.attrs.axes", [1, 1], "nodes.3"),
        ("nodes.3.attrs.axes", [-1], "nodes.3"),
        ("nodes.3.attrs.axes", [2**100], "nodes.3.attrs.axes.0"),
        ("nodes.1.attrs.shape", [2**40, 2**40], "nodes.1.attrs.shape"),
        ("nodes.0.attrs.value", "infinity", "nodes.0.attrs.value"),
        ("nodes.0.attrs.value", None, "nodes.0.attrs.value"),
        ("nodes.0.attrs.value", 10**400, "nodes.0.attrs.value"),
        ("nodes.0.attrs", {"value": 0.5, "dtype": "int32"}, "nodes.0"),
        ("nodes.0.attrs", {"value": "nan", "dtype": "int32"}, "nodes.0"),
        ("targets", [], "targets"),
        ("targets", ["sums", "sums"], "targets"),
        ("targets", ["unknown"], "targets.0"),
        ("targets", [["x"]], "targets.0"),
    ],
)
def test_what_is_no_graph_is_refused_by_its_path(path: str, value: Any, at: str) -> None:
    with pytest.raises(GraphFormatError) as caught:
        read_graph(changed(path, value))
    assert caught.value.path == at


@pytest.mark.parametrize(
    ("path", "value", "at"),
    [
        ("nodes.1.attrs.body", [], "nodes.1.attrs.body"),
        ("nodes.1.attrs.body", {}, "nodes.1.attrs.body"),
        ("nodes.1.attrs.body.turns", 3, "nodes.1.attrs.body"),
        ("nodes.1.attrs.body.turn", "c", "nodes.1.attrs.body.carries"),
        ("nodes.1.attrs.body.turn", 1, "nodes.1.attrs.body.turn"),
        ("nodes.1.attrs.body.carries", "c", "nodes.1.attrs.body.carries"),
        ("nodes.1.attrs.body.carries", ["c", "d", "e"], "nodes.1.attrs.body"),
        ("nodes.1.attrs.body.carries", [], "nodes.1.attrs.body"),
        ("nodes.1.attrs.body.constants", ["c"], "nodes.1.attrs.body.constants"),
        ("nodes.1.attrs.body.nodes", None, "nodes.1.attrs.body.nodes"),
        ("nodes.1.attrs.body.nodes.1.inputs", ["x", "wide"], "nodes.1.attrs.body.nodes.1.inputs.0"),
        ("nodes.1.attrs.body.nodes.1.op", "system", "nodes.1.attrs.body.nodes.1.op"),
        ("nodes.1.attrs.body.nodes.1.name", "c", "nodes.1.attrs.body.nodes.1.name"),
        ("nodes.1.attrs.body.nodes.2.op", "add", "nodes.1.attrs.body"),
        ("nodes.1.attrs.body.next", ["k"], "nodes.1.attrs.body"),
        ("nodes.1.attrs.body.next", [], "nodes.1.attrs.body"),
        ("nodes.1.attrs.body.slices", ["x"], "nodes.1.attrs.body.slices.0"),
        ("nodes.1.attrs.body.slices", ["next"] * 3 + ["k"], "nodes.1.attrs.body"),
        ("nodes.1.attrs.body.stop", ["stops"], "nodes.1.attrs.body.stop.0"),
        ("nodes.1.attrs.limit", None, "nodes.1.attrs.limit"),
        ("nodes.1.attrs.limit", -1, "nodes.1"),
        ("nodes.1.attrs.limit", 2**59, "nodes.1"),
        ("nodes.1.attrs.save", "sqrt", "nodes.1"),
        ("nodes.1.inputs", ["x", "x", "w"], "nodes.1"),
        ("nodes.2.inputs", ["x"], "nodes.2"),
        ("nodes.2.attrs.index", 3, "nodes.2"),
        ("nodes.2.attrs.index", -1, "nodes.2"),
        ("nodes.4.inputs", ["path"], "nodes.4.inputs.0"),
        ("nodes.5.inputs", ["either", "either"], "nodes.5.inputs.0"),
        ("nodes.6.inputs", ["high", "x"], "nodes.6"),
        ("nodes.6.inputs", ["pred", "path"], "nodes.6.inputs.1"),
        ("nodes.6.attrs.then.operands", [], "nodes.6.attrs.then"),
        ("nodes.6.attrs.then.results", ["a"], "nodes.6"),
        ("nodes.6.attrs.then.results", ["a", "x"], "nodes.6.attrs.then.results.1"),
        ("nodes.6.attrs.otherwise", None, "nodes.6.attrs.otherwise"),
        ("targets", ["path"], "targets.0"),
    ],
)
def test_what_is_no_region_is_refused_by_its_path(path: str, value: Any, at: str) -> None:
    with pytest.raises(GraphFormatError) as caught:
        read_graph(changed(path, value, LOOPED))
    assert caught.value.path == at


@pytest.mark.parametrize(
    "document", [None, [], "graph", 3, {}, {"inputs": {}, "nodes": [], "targets": [], "x": 1}]
)
def test_other_json_is_refused(document: Any) -> None:
    with pytest.raises(GraphFormatError):
        read_graph(document)
