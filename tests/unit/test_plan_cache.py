"""The plan cache: equal graphs share a file, damage is noticed, and processes don't hurt each other."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from plan_training import Step, gpt, training_step

from engine.compiler import plan_cache
from engine.compiler.blueprint import Blueprint, draw
from engine.compiler.plan_cache import PlanCache, graph_key
from engine.core import build as b
from engine.core.dim import symbol
from engine.core.dtype import float32
from engine.core.node import Node
from engine.core.walk import post_order


def step() -> Step:
    return training_step(gpt(32, 1, 4), 2, 4)


def seen(blueprint: Blueprint, order: list[Node]) -> list[object]:
    """A blueprint with nodes as numbers, for comparison."""
    number = {node: k for k, node in enumerate(order)}

    def name(node: Node) -> object:
        return number.get(node, (node.op, node.attrs, node.shape))

    return [
        blueprint.text,
        blueprint.in_place,
        [
            (name(own.source), own.shape, own.offset, own.strides)
            for own in (*blueprint.results, *blueprint.states)
        ],
        [([name(x) for x in own.writes], [name(x) for x in own.reads], own.level) for own in blueprint.steps],
        [(name(own.producer), name(own.consumer), own.reason) for own in blueprint.refusals],
    ]


def order_of(own: Step) -> list[Node]:
    return post_order([own.loss, *[node for pair in own.states for node in pair]])


def test_an_equal_graph_gets_the_same_blueprint_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = PlanCache(tmp_path / "plans", "some target")
    first, second = step(), step()
    drawn = cache.blueprint([first.loss], first.states)
    monkeypatch.setattr(plan_cache, "draw", lambda *_: pytest.fail("the file was not used"))
    found = cache.blueprint([second.loss], second.states)
    assert seen(found, order_of(second)) == seen(drawn, order_of(first))
    assert len(list((tmp_path / "plans").iterdir())) == 1


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "foreign", "longer"])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = PlanCache(tmp_path, "")
    own = step()
    cache.blueprint([own.loss], own.states)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "cut": whole[:middle],
            "empty": b"",
            "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "foreign": pickle.dumps("not a plan"),
            "longer": whole + b"\0",
        }[damage]
    )
    calls = []
    monkeypatch.setattr(plan_cache, "draw", lambda *given: calls.append(1) or draw(*given))
    found = cache.blueprint([own.loss], own.states)
    assert calls == [1]
    assert path.read_bytes()[:14] == whole[:14]
    assert seen(found, order_of(own)) == seen(cache.blueprint([own.loss], own.states), order_of(own))
    assert calls == [1]


def test_keys_tell_graphs_apart() -> None:
    n = symbol("n")

    def key(target: Node, machine: str = "x") -> str:
        return graph_key(post_order([target]), [target], 1, machine)

    x, y = b.input((n, 4), float32), b.input((n, 4), float32)
    graphs = [
        b.add(x, y),
        b.add(x, x),
        b.sub(x, y),
        b.add(b.input((n, 5), float32), b.input((n, 5), float32)),
        b.add(b.input((n * 2, 4), float32), b.input((n * 2, 4), float32)),
        b.sum(x, (0,)),
        b.sum(x, (1,)),
        b.full((4,), float32, 1.0),
        b.full((4,), float32, -1.0),
        b.parameter("p", (n, 4), float32),
    ]
    assert len({key(graph) for graph in graphs}) == len(graphs)
    assert key(b.add(x, y)) == key(b.add(b.input((n, 4), float32), b.input((n, 4), float32)))
    assert key(b.add(x, y)) != key(b.add(x, y), "another machine")


def test_small_graphs_leave_no_files(tmp_path: Path) -> None:
    x = b.input((4,), float32)
    PlanCache(tmp_path, "").blueprint([b.exp(x)], [])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    own = step()
    assert PlanCache(tmp_path / "file" / "plans", "").blueprint([own.loss], own.states).steps


def test_a_file_makes_nothing_but_plans(tmp_path: Path) -> None:
    loader = plan_cache._Loader(pickle.dumps(subprocess.Popen), [])
    with pytest.raises(pickle.UnpicklingError, match="subprocess"):
        loader.load()


_BOTH = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from plan_training import gpt, training_step
from engine.compiler.plan_cache import PlanCache
own = training_step(gpt(32, 1, 4), 2, 4)
for _ in range(5):
    for path in Path(sys.argv[1]).glob("*.plan"):
        path.unlink(missing_ok=True)
    assert PlanCache(Path(sys.argv[1]), "").blueprint([own.loss], own.states).steps
"""


def test_processes_plan_the_same_graph_at_once(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", _BOTH, str(tmp_path), tests]
    processes = [subprocess.Popen(command, cwd=Path(tests).parent) for _ in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert not list(tmp_path.glob("build-*"))
