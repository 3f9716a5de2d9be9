"""Gradients of loops and conditions equal those of Python's own loops in torch, whatever is kept for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from primitives import torch_numbers

from engine import Generator, Graph, Tensor, Turn, cond, float64, grad_check, loop
from engine.devices.cpu import CpuDevice
from engine.devices.device import current_device

needs_compiler = pytest.mark.skipif(
    not isinstance(current_device(), CpuDevice), reason="plans need a C compiler"
)
RNG = np.random.default_rng(0)
VALUES = {
    "x": RNG.normal(size=3),
    "w": RNG.normal(size=(3, 3)) * 0.4,
    "rows": RNG.normal(size=(7, 3)),
    "scale": np.array(0.7),
}
SAVES = ("every", "sqrt", "first")


def ours(x: Any, w: Any, rows: Any, scale: Any, *, save: Any, limit: float) -> tuple[Any, Any]:
    """A recurrence with stacked results, closed-over weights and an early stop: the loss, and the turns."""

    def body(turn: Tensor, carries: Any) -> Turn:
        hidden, total = carries
        new = ((hidden.reshape(1, 3) @ w).reshape(3) * scale + rows[turn]).tanh()
        return Turn((new, total + new.sum() * scale), new * hidden, new.sum() > limit)

    result = loop(7, body, (x, Tensor(0.0, float64)), save=save)
    loss = result.carries[0].sum() + result.carries[1] * 2 + (result.stacked * result.stacked).sum()
    return loss, result.turns


def theirs(x: Any, w: Any, rows: Any, scale: Any, limit: float) -> tuple[Any, int]:
    hidden, total, stack = x, torch.zeros((), dtype=torch.float64), []
    for turn in range(7):
        new = torch.tanh(hidden @ w * scale + rows[turn])
        total = total + new.sum() * scale
        stack.append(new * hidden)
        hidden = new
        if new.sum() > limit:
            break
    stacked = torch.stack(stack)
    return hidden.sum() + total * 2 + (stacked * stacked).sum(), len(stack)


def torch_gradients(loss: Callable[..., Any], values: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """First gradients, and those of the sum of their squares."""
    given = {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}
    first = torch.autograd.grad(loss(**given), list(given.values()), create_graph=True)
    square = sum((g * g).sum() for g in first)
    second = torch.autograd.grad(square, list(given.values()))
    return [torch_numbers(g) for g in first], [torch_numbers(g) for g in second]


def our_gradients(loss: Callable[..., Tensor], values: dict[str, Any]) -> tuple[list[Tensor], list[Tensor]]:
    given = {name: Tensor(value.tolist(), float64, requires_grad=True) for name, value in values.items()}
    loss(**given).backward()
    first = [x.grad for x in given.values()]
    for x in given.values():
        x.zero_grad()
    square: Any = sum((g * g).sum() for g in first)
    square.backward()
    return first, [x.grad for x in given.values()]


@pytest.mark.parametrize("limit", [0.9, 99.0], ids=["early stop", "all turns"])
def test_first_and_second_gradients_equal_torch_for_all_that_may_be_kept(limit: float) -> None:
    wanted = torch_gradients(lambda **given: theirs(**given, limit=limit)[0], VALUES)
    bits = []
    for save in SAVES:
        found = our_gradients(lambda save=save, **given: ours(**given, save=save, limit=limit)[0], VALUES)
        for got, right in zip([*found[0], *found[1]], [*wanted[0], *wanted[1]], strict=True):
            np.testing.assert_allclose(got.tolist(), right, rtol=1e-11, atol=1e-13)
        bits.append([g.tobytes() for g in found[0]])
    assert bits[0] == bits[1] == bits[2]


@needs_compiler
@pytest.mark.parametrize("save", SAVES)
def test_recorded_gradients_have_the_bits_of_eager_and_of_the_interpreter(save: Any) -> None:
    graph = Graph()
    with graph:
        given = {name: graph.parameter(name, value.shape, float64) for name, value in VALUES.items()}
        loss, turns = ours(**given, save=save, limit=0.9)
        first = graph.differentiate(loss, given)
        second = graph.differentiate(sum((g * g).sum() for g in first.values()), given)
    feeds = {name: Tensor(value.tolist(), float64) for name, value in VALUES.items()}
    plan = graph.compile([loss, turns, first, second])
    assert plan.verify(feeds), str(plan.verify(feeds))
    eager, _ = our_gradients(lambda **given: ours(**given, save=save, limit=0.9)[0], VALUES)
    assert [g.tobytes() for g in plan.run(feeds)[2].values()] == [g.tobytes() for g in eager]


@pytest.mark.parametrize("save", SAVES)
def test_lanes_that_stop_early_have_the_gradients_of_their_own_turns(save: Any) -> None:
    start, rate = RNG.normal(size=(2, 4)), RNG.uniform(0.6, 1.5, size=4)

    def loss(x: Any, r: Any) -> Tensor:
        def body(turn: Tensor, c: Tensor) -> Turn:
            new = c * r + c * c * 0.1
            return Turn(new, new.sin(), abs(new) > 2)

        result = loop(9, body, x, save=save)
        assert len(set(result.turns.flatten().tolist())) > 1
        return (result.carries * result.carries).sum() + result.stacked.sum()

    def each(x: Any, r: Any) -> Any:
        total = torch.zeros((), dtype=torch.float64)
        for i in range(2):
            for j in range(4):
                value = x[i, j]
                for _ in range(9):
                    value = value * r[j] + value * value * 0.1
                    total = total + torch.sin(value)
                    if abs(value) > 2:
                        break
                total = total + value * value
        return total

    values = {"x": start, "r": rate}
    wanted, found = torch_gradients(each, values), our_gradients(loss, values)
    for got, right in zip([*found[0], *found[1]], [*wanted[0], *wanted[1]], strict=True):
        np.testing.assert_allclose(got.tolist(), right, rtol=1e-10, atol=1e-12)


def test_no_turn_and_counts_from_data() -> None:
    for count, most in ((0, 5), (3, 5), (9, 5), (3, None), (-1, None)):
        x = Tensor([1.5, -0.5], float64, requires_grad=True)
        w = Tensor(0.5, float64, requires_grad=True)
        loop(Tensor(count), lambda turn, c, w=w: c * w, x, most=most).carries.sum().backward()
        turns = max(min(count, most or count), 0)
        assert x.grad is not None
        assert x.grad.tolist() == [0.5**turns] * 2
        if turns:
            assert w.grad is not None
            assert w.grad.item() == pytest.approx(turns * 0.5 ** (turns - 1))


def test_conditions_differentiate_the_branch_that_was_taken() -> None:
    for flag in (True, False):
        x = Tensor([0.5, 2.0], float64, requires_grad=True)
        w = Tensor(3.0, float64, requires_grad=True)
        y = cond(Tensor(flag), lambda a: (a * w).exp().sum(), lambda a: a.log().sum() * 2, x)  # noqa: B023
        y.backward()
        assert x.grad is not None
        right = 3 * np.exp(3 * np.array([0.5, 2.0])) if flag else 2 / np.array([0.5, 2.0])
        np.testing.assert_allclose(x.grad.tolist(), right, rtol=1e-14)


def test_nests_agree_with_difference_quotients_to_the_second_order() -> None:
    generator = Generator(2)

    def nest(x: Tensor, w: Tensor) -> Tensor:
        def outer(turn: Tensor, c: Tensor) -> Tensor:
            inner = loop(turn + 1, lambda u, d: d * w + x[u % 2] * c, c, most=3, save="every").carries
            return cond(inner.sum() > 0, inner.tanh, lambda: inner * inner * 0.1)

        return loop(3, outer, x.sum() * w).carries

    x, w = generator.normal(2, 3, dtype=float64), generator.normal(3, dtype=float64)
    assert grad_check(nest, [x, w], order=2)


def test_nothing_flows_through_what_is_detached_in_a_body() -> None:
    x = Tensor([1.0, 2.0], float64, requires_grad=True)
    frozen = x.detach()
    loop(3, lambda turn, c: c * frozen + x.detach() + c.detach(), x * 1.0).carries.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 8.0]


@needs_compiler
def test_symbolic_numbers_of_turns_and_the_sizes_zero_and_one() -> None:
    graph = Graph()
    with graph:
        rows, w = graph.parameter("rows", ("n", 2), float64), graph.parameter("w", (2,), float64)
        n = graph.symbol("n")
        result = loop(n, lambda turn, c: (c * w + rows[turn]).sin(), w * 0.5)
        gradients = graph.differentiate(result.carries, {"rows": rows, "w": w})
    plan = graph.compile([result.carries, gradients])
    for size in (0, 1, 5, 33):
        values = {"rows": RNG.normal(size=(size, 2)), "w": RNG.normal(size=2)}
        feeds = {name: Tensor(v.tolist() or [[0.0, 0.0]], float64) for name, v in values.items()}
        if not size:
            feeds["rows"] = Tensor.zeros(0, 2, dtype=float64)
        assert plan.verify(feeds), str(plan.verify(feeds))
        given = {name: torch.tensor(v, requires_grad=True) for name, v in values.items()}
        c = given["w"] * 0.5
        for turn in range(size):
            c = torch.sin(c * given["w"] + given["rows"][turn])
        c.sum().backward()
        for name, gradient in plan.run(feeds)[1].items():
            right = given[name].grad
            if size or name == "w":
                np.testing.assert_allclose(gradient.tolist(), torch_numbers(right), rtol=1e-12)


@pytest.mark.parametrize("stop", ["never", "lanes", "all"])
def test_first_gradients_have_the_same_bits_whatever_is_kept(stop: str) -> None:
    """Also of constants of which a turn reads several rows."""
    values = [RNG.normal(size=(3, 4)), RNG.uniform(0.6, 1.5, size=4), RNG.normal(size=(9, 4))]

    def gradients(save: Any) -> list[bytes]:
        x, rate, rows = (Tensor(value.tolist(), float64, requires_grad=True) for value in values)

        def body(turn: Tensor, c: Tensor) -> Turn:
            new = c * rate + c * c * 0.1 + rows[turn] * 0.1 + rows[(turn * 2) % 5] * rate
            flags = {"never": None, "lanes": abs(new) > 1.5, "all": abs(new).sum() > 9.0}
            return Turn(new, new.sin() * rate, flags[stop])

        result = loop(9, body, x, save=save)
        ((result.carries * result.carries).sum() + result.stacked.sum()).backward()
        return [own.grad.tobytes() for own in (x, rate, rows) if own.grad is not None]

    assert len(gradients("every")) == 3
    assert gradients("every") == gradients("sqrt") == gradients("first")


def test_gradients_of_what_is_only_stacked_and_of_loops_results() -> None:
    w = Tensor([2.0, 3.0], float64, requires_grad=True)
    loop(5, lambda turn, c: Turn(c, w * turn), ()).stacked.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [10.0, 10.0]
    graph = Graph()
    with graph:
        p = graph.input("p", (2,), float64)
        result = loop(3, lambda turn, c: c * p, p).carries
        gradients = graph.differentiate((result * result).sum(), [result, p])
    found = graph.interpret(gradients, {"p": [2.0, 3.0]})
    assert [g.tolist() for g in found] == [[32.0, 162.0], [8 * 2.0**7, 8 * 3.0**7]]


@needs_compiler
def test_a_loop_that_only_stop_ends_has_a_gradient() -> None:
    """Newton's method for the cube root of each of some rows: dx/da = x / 3a."""
    graph = Graph()
    with graph:
        a = graph.parameter("a", (2, 3), float64)

        def newton(turn: Tensor, x: Tensor) -> Turn:
            row = a[turn % 2] * 0.0 + a[0]
            new = x - (x * x * x - row) / (x * x * 3.0)
            return Turn(new, stop=abs(new * new * new - row).max() < 1e-9)

        root = loop(2**40, newton, Tensor([1.0, 1.0, 1.0], float64), save="first")
        slope = graph.differentiate(root.carries, a)
    plan = graph.compile([root, slope])
    feeds = {"a": Tensor([[8.0, 27.0, 2.0], [1.0, 1.0, 1.0]], float64)}
    assert plan.verify(feeds)
    found, slope = plan.run(feeds)
    np.testing.assert_allclose(found.carries.tolist(), [2.0, 3.0, 2 ** (1 / 3)], rtol=1e-12)
    assert 5 < found.turns.item() < 20
    np.testing.assert_allclose(slope.tolist()[0], [2 / 24, 3 / 81, 2 ** (1 / 3) / 6], rtol=1e-7)
    assert slope.tolist()[1] == [0.0, 0.0, 0.0]
