"""Random graphs as JSON, most of them nonsense: each is refused by its path, or read, written and run."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from engine.compiler.plan import Plan
from engine.core.dtype import BY_NAME
from engine.core.opdef import OPS
from engine.devices.cpu.device import CpuDevice
from engine.devices.device import use_device
from engine.devices.toolchain import find_toolchain
from engine.errors import EngineError
from engine.graph_fields import GraphFormatError
from engine.graph_json import read_graph, write_graph
from engine.named_graph import NamedGraph
from workers.compiling.programs import Program, values_of

if find_toolchain() is None:
    pytest.skip("no C compiler here", allow_module_level=True)

SHAPES: list[list[int]] = [[], [1], [3], [2, 3], [3, 2], [0], [0, 3], [4, 2, 3], [1, 1], [70], [130, 3]]
TRIES = 60  # until some node fits those before it
REGION = "_"  # ends the names of loops and conditions


def attribute(name: str, source: random.Random) -> Any:
    """Any value that an attribute of this name could have, fitting or not."""
    choices: dict[str, list[Any]] = {
        "shape": [*SHAPES, [6], [2, 3, 1], [1] * 8],
        "axis": [0, 0, 1, 2, -1, 7],
        "axes": [[0], [1], [0, 1], [1, 0], [], [0, 2], [-1]],
        "perm": [[0], [0, 1], [1, 0], [], [2, 0, 1], [0, 0]],
        "dtype": list(BY_NAME),
        "kind": ["sum", "prod", "max", "min", "any", "all", "set", "add", "and", "or", "xor"],
        "mode": ["clamp", "wrap", "zero", "mirror", "checked"],
        "reverse": [True, False],
        "value": [0, 1, -1, 0.5, "nan", "inf", "-inf", 2**40, -0.0, True, 3],
        "index": [0, 1, 1, 2, 3],
        "limit": [0, 1, 3, 5, -1],
        "save": ["every", "first", "sqrt"],
    }
    if name in choices:
        return source.choice(choices[name])
    sizes = [1, 1, -1, 2, -2, 0] if name == "steps" else [0, 0, 1, 2, -1, 3]
    return [source.choice(sizes) for _ in range(source.choice([0, 1, 2, 2, 3]))]


def region(name: str, count: int, source: random.Random, depth: int) -> dict[str, Any]:
    """A body or a branch for a node of so many inputs; mostly one that takes them."""
    taken = [f"p{k}" for k in range(max(count - (name != "body") + source.choice([0, 0, 0, -1, 1]), 0))]
    known = ["t", *taken] if name == "body" else taken
    nodes: list[dict[str, Any]] = []
    for k in range(source.choice([0, 1, 1, 2])):
        if known:
            nodes.append(random_node(f"r{k}", known, source, depth + 1))
            known = [*known, nodes[-1]["name"]]
    if name != "body":
        return {
            "operands": taken,
            "nodes": nodes,
            "results": [source.choice(known) for _ in range(source.randint(0, 2)) if known],
        }
    carries = source.randint(0, len(taken))
    fields = {
        "turn": "t",
        "carries": taken[:carries],
        "constants": taken[carries:],
        "nodes": nodes,
        "next": [source.choice([own, own, source.choice(known)]) for own in taken[:carries]],
        "slices": [source.choice(known) for _ in range(source.choice([0, 0, 1]))],
    }
    return fields if source.random() < 0.8 else {**fields, "stop": source.choice(known)}


def random_node(name: str, known: list[str], source: random.Random, depth: int = 0) -> dict[str, Any]:
    op = source.choice([op for op in OPS if op not in ("input", "parameter")])
    if source.random() < 0.3 and depth < 3:
        op = source.choice(["loop", "loop", "cond"])
    if source.random() < 0.5 and known[-1][-1] == REGION:
        return {
            "name": name,
            "op": "item",
            "inputs": known[-1:],
            "attrs": {"index": attribute("index", source)},
        }
    count = OPS[op].arity
    operands = [source.choice(known) for _ in range(source.randint(1, 3) if count is None else count)]
    if op == "cond" and source.random() < 0.7:
        operands[0] = next((own for own in known if own == "flag"), operands[0])
    if OPS[op].kind == "region":
        attrs = {
            attr: attribute(attr, source)
            if attr in ("limit", "save")
            else region(attr, len(operands), source, depth)
            for attr in OPS[op].attrs
        }
        return {"name": name + REGION, "op": op, "inputs": operands, "attrs": attrs}
    wanted = ("value", "dtype") if op == "constant" else OPS[op].attrs
    return {
        "name": name,
        "op": op,
        "inputs": operands,
        "attrs": {attr: attribute(attr, source) for attr in wanted},
    }


def random_graph(source: random.Random) -> NamedGraph | None:
    """A graph whose nodes were each refused until one was read; None where none was."""
    alike = {"shape": source.choice(SHAPES), "dtype": source.choice(list(BY_NAME))}
    inputs = {
        f"x{k}": alike
        if source.random() < 0.5
        else {"shape": source.choice(SHAPES), "dtype": source.choice(list(BY_NAME))}
        for k in range(3)
    }
    inputs["flag"] = {"shape": [], "dtype": "bool"}
    nodes: list[dict[str, Any]] = []
    graph = None
    for number in range(source.randint(1, 8)):
        for _ in range(TRIES):
            node = random_node(f"v{number}", [*inputs, *[own["name"] for own in nodes]], source)
            targets = [own["name"] for own in [*nodes, node] if own["name"][-1] != REGION][-3:] or ["x0"]
            try:
                graph = read_graph({"inputs": inputs, "nodes": [*nodes, node], "targets": targets})
            except GraphFormatError as error:
                assert error.path.startswith(f"nodes.{len(nodes)}")
                continue
            nodes.append(node)
            break
    return graph


def check(seed: int, device: CpuDevice) -> None:
    graph = random_graph(random.Random(seed))
    if graph is None:
        return
    written = json.dumps(write_graph(graph))
    assert json.dumps(write_graph(read_graph(json.loads(written)))) == written
    program = Program("", graph, None, False, {})
    with use_device(device):
        try:
            plan = Plan(list(graph.inputs.values()), program.nodes, device, names=graph.inputs)
            verdict = plan.verify(values_of(program, seed))
        except EngineError:
            return  # an index out of range, or what the device lacks
    assert verdict, f"seed {seed}: {verdict}\n{written}"


def test_graphs_from_outside_are_refused_or_run() -> None:
    device = CpuDevice(2)
    for seed in range(8):
        check(seed, device)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 300, 50))
def test_many_graphs_from_outside_are_refused_or_run(first: int) -> None:
    device = CpuDevice(2)
    for seed in range(first, first + 50):
        check(seed, device)
