"""Random nests of loops and conditions: value, first and second gradients are those of Python's own in torch;
plans have the bits of the interpreter.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from primitives import torch_numbers

from engine import Graph, Tensor, Turn, cond, float64, int64, loop
from engine.compiler.interpret import interpret
from engine.compiler.plan import Plan
from engine.core.node import Node
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.device import current_device
from engine.graph_json import read_graph, write_graph
from engine.named_graph import NamedGraph

needs_compiler = pytest.mark.skipif(
    not isinstance(current_device(), CpuDevice), reason="plans need a C compiler"
)
ROWS = 5
State = tuple[Any, ...]
Statement = Callable[["Backend", State, Any], State]
"""Changes the state, three vectors, given the backend and the turn of the loop around."""


class Backend:
    """Weights, and how a language loops, chooses and counts."""

    def __init__(self, w: Any, rows: Any, save: Any = "every") -> None:
        self.w, self.rows, self.save = w, rows, save
        self.stacked: list[Any] = []

    def loop(
        self, trip: Any, most: int, body: Callable[[Any, State], tuple[State, Any, Any]], s: State
    ) -> Any:
        """The state after the turns, and the sum of what they stacked."""
        counted = isinstance(trip, Tensor)

        def turn(number: Tensor, state: State) -> Turn:
            state, stacked, stop = body(number, state)
            return Turn(state, stacked, stop)

        result = loop(trip, turn, s, most=most if counted else None, save=self.save)
        return result.carries, result.stacked.sum()

    def choose(self, pred: Any, then: Callable[[], State], otherwise: Callable[[], State]) -> State:
        chosen: State = cond(pred, then, otherwise)
        return chosen

    def count(self, x: Any) -> Any:
        return (abs(x.sum()) * 10).floor().astype(int64) % 5

    def row(self, number: Any) -> Any:
        return self.rows[number % ROWS]


class TorchBackend(Backend):
    def loop(
        self, trip: Any, most: int, body: Callable[[Any, State], tuple[State, Any, Any]], s: State
    ) -> Any:
        total = torch.zeros((), dtype=torch.float64)
        for number in range(min(trip, most)):
            s, stacked, stop = body(number, s)
            total = total + stacked.sum()
            if stop:
                break
        return s, total

    def choose(self, pred: Any, then: Callable[[], State], otherwise: Callable[[], State]) -> State:
        return then() if pred else otherwise()

    def count(self, x: Any) -> int:
        return int(abs(x.sum()).item() * 10 // 1) % 5


def program(rng: random.Random, depth: int, length: int) -> list[Statement]:
    makers = [mixed, mixed, product, row] + ([looped, looped, chosen] if depth else [])
    return [rng.choice(makers)(rng, depth) for _ in range(length)]


def run(statements: Sequence[Statement], backend: Backend, state: State, turn: Any) -> State:
    for statement in statements:
        state = statement(backend, state, turn)
    return state


def placed(state: State, at: int, value: Any) -> State:
    return (*state[:at], value, *state[at + 1 :])


def mixed(rng: random.Random, depth: int) -> Statement:
    i, j, k = (rng.randrange(3) for _ in range(3))
    return lambda b, s, turn: placed(s, i, s[j].sin() * b.w + s[k] * 0.5)


def product(rng: random.Random, depth: int) -> Statement:
    i, j, k = (rng.randrange(3) for _ in range(3))
    return lambda b, s, turn: placed(s, i, (s[j] * s[k] + s[i].sum() * 0.1).tanh())


def row(rng: random.Random, depth: int) -> Statement:
    i, shift = rng.randrange(3), rng.randrange(ROWS)
    return lambda b, s, turn: placed(s, i, s[i] * 0.7 + b.row(turn + shift) * b.w)


def looped(rng: random.Random, depth: int) -> Statement:
    body, trip, counted = program(rng, depth - 1, rng.randint(1, 3)), rng.randrange(5), rng.random() < 0.4
    i, limit, stops = rng.randrange(3), rng.uniform(-0.5, 1.5), rng.random() < 0.5

    def statement(b: Backend, s: State, turn: Any) -> State:
        def one(number: Any, state: State) -> tuple[State, Any, Any]:
            state = run(body, b, state, number)
            return state, state[i] * state[i], state[i].sum() > limit if stops else None

        s, total = b.loop(b.count(s[0]) if counted else trip, 3 if counted else trip, one, s)
        return placed(s, i, s[i] + total * 0.01)

    return statement


def chosen(rng: random.Random, depth: int) -> Statement:
    branches = [program(rng, depth - 1, rng.randint(1, 2)) for _ in range(2)]
    i, j = rng.sample(range(3), 2)

    def statement(b: Backend, s: State, turn: Any) -> State:
        then, otherwise = ((lambda own=own: run(own, b, s, turn)) for own in branches)
        return b.choose(s[i].sum() > s[j].sum(), then, otherwise)

    return statement


def loss_of(statements: Sequence[Statement], backend: Backend, x: Any) -> Any:
    state = run(statements, backend, (x[0], x[1], x[2]), 1)
    return sum((own * own).sum() for own in state)


def values(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(3, 2)), "w": rng.normal(size=2), "rows": rng.normal(size=(ROWS, 2))}


def check_json(seed: int, planned: bool) -> None:
    """A nest and its gradients come back from JSON with the same bits."""
    rng = random.Random(seed)
    statements = program(rng, 2, 4)
    graph, given = Graph(), values(seed)
    with graph:
        ours = {name: graph.input(name, value.shape, float64) for name, value in given.items()}
        save = rng.choice(["every", "sqrt", "first"])
        loss = loss_of(statements, Backend(ours["w"], ours["rows"], save), ours["x"])
        slopes = graph.differentiate(loss, list(ours.values()))
    targets = dict.fromkeys([loss.node, *[x.node for x in slopes]])
    inputs = {name: x.node for name, x in ours.items()}
    named = NamedGraph(inputs, {f"target{k}": node for k, node in enumerate(targets)})
    written = write_graph(named)
    again = read_graph(json.loads(json.dumps(written)))
    assert write_graph(again) == written

    def fed(to: NamedGraph) -> dict[Node, Array]:
        return {to.inputs[name]: Tensor(value.tolist(), float64)._value for name, value in given.items()}

    def bits(arrays: Sequence[Array]) -> list[bytes]:
        return [x.tobytes() for x in arrays]

    wanted = bits(interpret(list(targets), fed(named), current_device(), {}))
    assert bits(interpret(list(again.targets.values()), fed(again), current_device(), {})) == wanted, seed
    if planned:
        plan = Plan(list(again.inputs.values()), list(again.targets.values()), CpuDevice())
        assert bits(plan.run(fed(again))) == wanted


def check(seed: int, planned: bool) -> None:
    rng = random.Random(seed)
    statements = program(rng, 2, 4)
    given = values(seed)

    theirs = {name: torch.tensor(value, requires_grad=True) for name, value in given.items()}
    wanted = loss_of(statements, TorchBackend(theirs["w"], theirs["rows"]), theirs["x"])
    leaves = list(theirs.values())
    first = torch.autograd.grad(wanted, leaves, create_graph=True, allow_unused=True)
    square = sum((g * g).sum() for g in first if g is not None)
    second = torch.autograd.grad(square, leaves, allow_unused=True)

    graph = Graph()
    with graph:
        ours = {name: graph.parameter(name, value.shape, float64) for name, value in given.items()}
        loss = loss_of(
            statements, Backend(ours["w"], ours["rows"], rng.choice(["every", "sqrt", "first"])), ours["x"]
        )
        slopes = graph.differentiate(loss, ours)
        curves = graph.differentiate(sum((g * g).sum() for g in slopes.values()), ours)
    feeds = {name: Tensor(given[name].tolist(), float64) for name in graph.names([loss, slopes, curves])}
    if planned:
        verdict = graph.compile([loss, slopes, curves]).verify(feeds)
        assert verdict, f"seed {seed}: {verdict}"
    value, slopes, curves = graph.interpret([loss, slopes, curves], feeds)
    assert value.item() == pytest.approx(wanted.item(), rel=1e-10), seed
    both = [*slopes.values(), *curves.values()]
    for name, own, right in zip([*given, *given], both, [*first, *second], strict=True):
        expected = np.zeros(given[name].shape) if right is None else torch_numbers(right)
        np.testing.assert_allclose(
            own.tolist(), expected, rtol=1e-7, atol=1e-9, err_msg=f"seed {seed}: {name}"
        )


@needs_compiler
@pytest.mark.parametrize("seed", range(4))
def test_random_nests(seed: int) -> None:
    check(seed, planned=seed == 0)


@needs_compiler
@pytest.mark.parametrize("seed", range(3))
def test_nests_come_back_from_json(seed: int) -> None:
    check_json(seed, planned=seed == 0)


@needs_compiler
@pytest.mark.slow
def test_many_nests_come_back_from_json() -> None:
    for seed in range(100, 130):
        check_json(seed, planned=seed % 4 == 0)


@needs_compiler
@pytest.mark.slow
def test_many_random_nests() -> None:
    for seed in range(100, 130):
        check(seed, planned=seed % 4 == 0)
