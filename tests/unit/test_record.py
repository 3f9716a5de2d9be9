"""record.Graph: plans equal the interpreter and eager, for every size; names, gradients, refusals."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from engine import Generator, Parameters, Tensor, float32, int64, nn
from engine.devices.cpu import CpuDevice
from engine.devices.device import current_device, use_device
from engine.devices.reference import ReferenceDevice
from engine.errors import BoundsError, DeviceError, DTypeError, ShapeError, SizeError, TracingError
from engine.record import Graph

needs_compiler = pytest.mark.skipif(
    not isinstance(current_device(), CpuDevice), reason="plans need a C compiler"
)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Generator(seed).normal(*shape)


def bits(tree: Any) -> Any:
    if isinstance(tree, dict | Parameters):
        return {name: bits(x) for name, x in tree.items()}
    return (tree.shape, tree.tobytes())


def classifier() -> tuple[Graph, dict[str, Any]]:
    """Loss and gradients of one layer, over any number of rows."""
    graph = Graph()
    with graph:
        x, targets = graph.input("x", ("rows", 3)), graph.input("targets", ("rows",), int64)
        weights = Parameters({"w": graph.parameter("w", (3, 4)), "b": graph.parameter("b", (4,))})
        loss = nn.CrossEntropyLoss()((x @ weights["w"] + weights["b"]).gelu(), targets)
        gradients = graph.differentiate(loss, weights)
        return graph, {"loss": loss, "gradients": gradients, "next": weights - gradients * 0.1}


def eager_classifier(x: Tensor, targets: Tensor, w: Tensor, b: Tensor) -> dict[str, Any]:
    w, b = Tensor(w, requires_grad=True), Tensor(b, requires_grad=True)
    loss = nn.CrossEntropyLoss()((x @ w + b).gelu(), targets)
    loss.backward()
    assert w.grad is not None
    assert b.grad is not None
    weights, gradients = Parameters({"w": w, "b": b}), Parameters({"w": w.grad, "b": b.grad})
    return {"loss": loss, "gradients": gradients, "next": weights - gradients * 0.1}


def feeds(rows: int) -> dict[str, Tensor]:
    targets = Tensor([i % 4 for i in range(rows)], int64)
    return {"x": normal(rows, 3, seed=rows), "targets": targets, "w": normal(3, 4), "b": normal(4, seed=1)}


@needs_compiler
def test_one_plan_for_every_size_with_the_bits_of_the_interpreter_and_of_eager() -> None:
    graph, targets = classifier()
    plan = graph.compile(targets)
    for rows in (1, 5, 33, 1000, 2):
        given = feeds(rows)
        result = plan.run(given)
        assert bits(result) == bits(graph.interpret(targets, given))
        assert bits(result) == bits(eager_classifier(**given))
        assert isinstance(result["next"], Parameters)
    assert plan.verify(feeds(7))


def test_the_interpreter_needs_no_compiler() -> None:
    graph = Graph()
    with graph:
        x = graph.input("x", ("n",))
        y = (x * 2.0 + 1.0).sum()
    with use_device(ReferenceDevice()):
        assert graph.interpret([y, x], {"x": [1.0, 2.0]})[0].item() == 8.0


@needs_compiler
def test_exact_numbers_decline_devices_with_other_bits() -> None:
    class Approximate(CpuDevice):
        name = "approximate"
        exact = False

    graph = Graph()
    with graph:
        y = graph.input("x", ("n",)) * 2.0
    other, fed = Approximate(), {"x": [1.5]}
    assert graph.compile(y, device=other).run(fed).tolist() == [3.0]
    assert graph.compile(y, numerics="exact", device=CpuDevice()).run(fed).tolist() == [3.0]
    with pytest.raises(DeviceError, match="'exact', and the approximate device has other bits"):
        graph.compile(y, numerics="exact", device=other)
    with pytest.raises(ValueError, match="numerics is 'fast'"):
        graph.compile(y, numerics="fast")  # type: ignore[arg-type]


@needs_compiler
def test_parameters_go_on_from_run_to_run() -> None:
    graph, targets = classifier()
    plan = graph.compile({"loss": targets["loss"], "next": targets["next"]})
    first = weights = Parameters({"w": normal(3, 4), "b": normal(4, seed=1)})
    data = {"x": normal(20, 3, seed=3), "targets": Tensor([i % 4 for i in range(20)])}
    before, losses = bits(first), []
    for _ in range(10):
        result = plan.run({**data, **weights})
        losses.append(result["loss"].item())
        weights = result["next"]
    assert losses == sorted(losses, reverse=True)
    assert bits(first) == before


@needs_compiler
def test_gradients_of_gradients() -> None:
    graph = Graph()
    with graph:
        x = graph.input("x", ("n",))
        slope = graph.differentiate((x * x * x).sum(), x)
        curve = graph.differentiate(slope, x)
        seeded = graph.differentiate(x * x, x, x)
    result = graph.compile([slope, curve, seeded]).run({"x": [1.0, 2.0]})
    assert [y.tolist() for y in result] == [[3.0, 12.0], [6.0, 12.0], [2.0, 8.0]]


@needs_compiler
def test_outside_tensors_are_constants_and_masks_grow_with_their_symbol() -> None:
    table = Tensor([1.0, 2.0, 3.0])
    graph = Graph()
    with graph:
        x = graph.input("x", ("n", 3))
        y = (x + table + Tensor.ones(x.shape)).tril().mean()
    plan = graph.compile(y)
    for rows in (1, 2, 6):
        x = normal(rows, 3)
        assert bits(plan.run({"x": x})) == bits((x + table + Tensor.ones(rows, 3)).tril().mean())


@needs_compiler
def test_threads_run_one_plan_with_different_feeds() -> None:
    graph, targets = classifier()
    plan = graph.compile(targets)
    wrong: list[int] = []

    def work(rows: int) -> None:
        expected = bits(graph.interpret(targets, feeds(rows)))
        wrong.extend(1 for _ in range(10) if bits(plan.run(feeds(rows))) != expected)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (3, 50, 7, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@needs_compiler
def test_feeds_are_checked() -> None:
    graph, targets = classifier()
    plan, good = graph.compile(targets), feeds(4)
    for change, error, message in (
        ({"x": normal(5, 3)}, ShapeError, "targets has shape"),
        ({"x": normal(4, 2)}, ShapeError, "x has shape"),
        ({"x": normal(4)}, ShapeError, "x has shape"),
        ({"w": normal(3, 4).astype(int64)}, DTypeError, "w takes float32"),
        ({"z": normal(1)}, KeyError, "nothing reads"),
        ({"targets": Tensor([0, 1, 2, 9])}, BoundsError, "9"),
    ):
        with pytest.raises(error, match=message):
            plan.run({**good, **change})
    del good["b"]
    for run in (plan.run, lambda given: graph.interpret(targets, given)):
        with pytest.raises(KeyError, match="lack b"):
            run(good)


def test_nodes_of_another_graph_are_refused() -> None:
    one, other = Graph(), Graph()
    with one:
        x = one.input("x", (2,))
    with other:
        y = other.input("y", (2,))
        with pytest.raises(TracingError, match="another graph"):
            x + y
    for use in (lambda: other.compile(x), lambda: other.interpret(x, {}), lambda: other.differentiate(x, y)):
        with pytest.raises(TracingError, match="another graph"):
            use()
    with pytest.raises(ValueError, match="already"):
        one.input("x", (3,))


def test_values_and_draws_do_not_exist_while_recording() -> None:
    graph = Graph()
    with graph:
        x = graph.input("x", (2,))
        with pytest.raises(TracingError, match="test_record"):
            x.sum().item()
        with pytest.raises(TracingError, match="inputs"):
            Generator(0).uniform(2)
    with pytest.raises(TracingError, match="test_record"):
        x + 1.0


def test_sizes_that_are_not_equal_do_not_broadcast() -> None:
    graph = Graph()
    with graph:
        x, y = graph.input("x", ("n",)), graph.input("y", ("m",))
        with pytest.raises(ShapeError, match=r"n and m"):
            x + y


def test_a_graph_reads_as_text() -> None:
    graph = Graph()
    with graph:
        a, b = graph.input("a", ("n", 4)), graph.input("b", ("n", 4))
        y = (a + b).relu()
    text = graph.text([y]).splitlines()
    assert text[0] == "a = input() float32[n, 4]"
    assert "v2 = add(a, b) float32[n, 4]" in text
    assert text[-1].startswith("targets v")


@needs_compiler
def test_a_plan_can_be_looked_at() -> None:
    graph, targets = classifier()
    plan = graph.compile(targets)
    assert "kernel" in plan.describe({"rows": 8})
    assert "void kernel_0" in plan.source()
    assert json.loads(plan.trace_events(feeds(8)))
    assert str(plan.profile(feeds(8)))
    assert "<" in plan._repr_html_()


def test_parameters_are_a_mapping_with_arithmetic() -> None:
    p = Parameters({"a": Tensor([1.0, 2.0]), "b": Tensor(3.0, float32)})
    assert bits((p + p) / 2.0 - p) == bits(p * 0.0)
    assert (1.0 - p)["b"].item() == -2.0
    assert (-p)["a"].tolist() == [-1.0, -2.0]
    assert p.replace(b=Tensor(9.0))["b"].item() == 9.0
    assert p["b"].item() == 3.0
    assert p.map(lambda x, y: x.maximum(y), 1.5)["a"].tolist() == [1.5, 2.0]
    with pytest.raises(KeyError, match="names differ"):
        p + Parameters({"a": Tensor(1.0)})
    with pytest.raises(KeyError, match="no parameter 'c'"):
        p["c"]
    with pytest.raises(KeyError, match="no parameters"):
        p.replace(c=Tensor(1.0))


def test_a_cross_entropy_and_its_gradient_are_one_kernel() -> None:
    """With the head's bias and that one's gradient; beside it the check of the targets, the mean, and the end
    of the bias's sum.
    """
    graph = Graph()
    with graph:
        x, targets = graph.input("x", ("rows", 32)), graph.input("targets", ("rows",), int64)
        weight, bias = graph.parameter("weight", (32, 65)), graph.parameter("bias", (65,))
        loss = nn.CrossEntropyLoss()(x @ weight + bias, targets)
        gradients = graph.differentiate(loss, {"x": x, "weight": weight, "bias": bias})
    plan = graph.compile({"loss": loss, "gradients": gradients}).plan
    steps = [step for step in plan.blueprint.steps if not step.fixed]
    (whole,) = [step for step in steps if any(node.op == "exp" for node in step.nodes)]
    assert {node.op for node in whole.nodes} >= {"add", "log", "select", "reduce", "div"}
    others = [[node.op for node in step.nodes] for step in steps if step is not whole]
    assert sorted(others) == [["dot"], ["dot"], ["dot"], ["gather"], ["reduce"], ["reduce", "div"]]


def test_a_size_cannot_be_compared_before_it_is_known() -> None:
    graph = Graph()
    with graph:
        x, y = graph.input("x", ("rows", 3)), graph.input("y", ("others", 3))
        assert x.shape == (graph.symbol("rows"), 3)
        comparisons = (
            lambda: x.shape[0] == 8,
            lambda: x.shape[0] == y.shape[0],
            lambda: x.shape == (8, 3),
            lambda: x.shape[0] < 8,
            lambda: x.shape[0] > 8,
            lambda: max(x.shape[0], y.shape[0]),
            lambda: not x.shape[0],
        )
        for unknown in comparisons:
            with pytest.raises(SizeError, match=r"the size (rows|others) (==|<|>) .* is not known"):
                unknown()
