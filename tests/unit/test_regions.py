"""Loops and conditions: as nodes, over Tensors, in graphs and in plans."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import engine
from engine import Generator, Graph, Tensor, Turn, cond, float32, float64, int64, loop, no_grad
from engine.compiler.plan_cache import PlanCache
from engine.compiler.verify import VerificationError, verify
from engine.core import build as b
from engine.core.dim import symbol
from engine.core.dtype import bool_
from engine.core.node import Node
from engine.core.region import LoopBody, Region, results
from engine.core.walk import post_order
from engine.devices.cpu import CpuDevice
from engine.devices.device import current_device, use_device
from engine.devices.reference import ReferenceDevice
from engine.errors import BoundsError, DTypeError, ShapeError, TracingError

needs_compiler = pytest.mark.skipif(
    not isinstance(current_device(), CpuDevice), reason="plans need a C compiler"
)


# ---- as nodes


def doubling(size: Any = 3, slices: bool = False) -> LoopBody:
    turn, x, w = b.input((), int64), b.input((size,), float32), b.input((size,), float32)
    product = b.mul(b.add(x, x), w)
    return LoopBody(turn, [x], [w], [product], [x] if slices else [])


def test_regions_of_equal_structure_are_equal_and_survive_pickling() -> None:
    one, other = doubling(), doubling()
    assert one == other
    assert hash(one) == hash(other)
    assert one != doubling(4)
    assert one != doubling(slices=True)
    assert Region(one.params, one.outs) != one
    for body in (one, doubling(symbol("n"), True)):
        copy = pickle.loads(pickle.dumps(body))
        assert copy == body
        assert repr(copy) == repr(body)
        assert copy.carries[0].shape == body.carries[0].shape


def test_a_region_is_closed_and_reads_no_symbol_once_sizes_are_known() -> None:
    x, outside = b.input((3,), float32), b.input((3,), float32)
    with pytest.raises(ValueError, match="none of its parameters"):
        Region([x], [b.add(x, outside)])
    body = doubling(symbol("n"))
    assert not body.is_static
    assert body.at({"n": 3}) == doubling(3)
    assert doubling(3).at({"n": 5}) == doubling(3)


def test_results_are_turns_carries_and_stacks() -> None:
    x = b.input((3,), float32)
    node = b.loop(doubling(slices=True), (x,), (x,), 5)
    assert results(node) == (((), int64), ((3,), float32), ((5, 3), float32))
    assert (b.item(node, 2).shape, b.item(node, 1).dtype) == ((5, 3), float32)
    verify("graph", [b.item(node, 2)])
    with pytest.raises(VerificationError, match="only items may"):
        verify("graph", [Node("neg", (node,), (), node.shape, node.dtype)])
    with pytest.raises(ValueError, match="item 3 of a loop with 3 results"):
        b.item(node, 3)
    with pytest.raises(ValueError, match="only loops and conditions have items"):
        b.item(x, 0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda x: b.loop(doubling(), (x,), (x,), None), ValueError, "must be without a limit"),
        (lambda x: b.loop(doubling(), (x,), (), 3), ValueError, "operands for 1 carries and 1 constants"),
        (lambda x: b.loop(doubling(4), (x,), (x,), 3), ShapeError, "the body takes"),
        (lambda x: b.loop(doubling(), (x,), (x,), 3, x), ValueError, "must be a scalar of int64"),
        (lambda x: b.loop(doubling(), (x,), (x,), 3, None, "last"), ValueError, "save 'last' must be one of"),
        (
            lambda x: b.loop(doubling(slices=True), (x,), (x,), None, b.constant(3, int64)),
            ShapeError,
            "a stacked result needs a limit",
        ),
        (lambda x: b.cond(x, doubling(), doubling(), ()), ShapeError, "must be a scalar of bool"),
        (
            lambda x: b.cond(
                b.constant(True, bool_), Region([], [b.constant(1, float32)]), Region([], []), ()
            ),
            ValueError,
            "one branch has 1 results, the other 0",
        ),
    ],
)
def test_operands_that_do_not_fit_are_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(b.input((3,), float32))


# ---- over Tensors


def test_carries_stacks_turns_and_an_early_stop() -> None:
    w = Tensor([2.0, 3.0, 4.0])

    def body(turn: Tensor, carries: Any) -> Turn:
        x, count = carries["x"], carries["count"]
        return Turn({"x": x + w * turn, "count": count + 2}, (x, turn), x.sum() > 20)

    result = loop(6, body, {"x": Tensor([0.0, 1.0, 2.0]), "count": 0})
    assert result.turns.item() == 4
    assert result.carries["x"].tolist() == [12.0, 19.0, 26.0]
    assert result.carries["count"].item() == 8
    assert result.stacked[0].tolist()[2:] == [[2.0, 4.0, 6.0], [6.0, 10.0, 14.0], [0.0] * 3, [0.0] * 3]
    assert result.stacked[1].tolist() == [0, 1, 2, 3, 0, 0]


@pytest.mark.parametrize("trip", [0, -3, Tensor(0), Tensor(-2, engine.int32)])
def test_no_turn_leaves_carries_as_they_are(trip: Any) -> None:
    most = {"most": 4} if isinstance(trip, Tensor) else {}
    result = loop(trip, lambda turn, x: Turn(x * 2, x, x > 0), Tensor([1.0, -1.0]), **most)
    assert result.carries.tolist() == [1.0, -1.0]
    assert result.turns.tolist() == [0, 0]
    assert result.stacked.tolist() == ([[0.0, 0.0]] * 4 if most else [])


def test_a_count_from_data_and_its_bound() -> None:
    def turns(count: int, most: int | None) -> float:
        return loop(Tensor(count), lambda turn, x: x + turn, 0, most=most).carries.item()

    assert [turns(5, None), turns(5, 3), turns(2, 3)] == [10, 3, 1]


def test_lanes_stop_one_by_one() -> None:
    """The Mandelbrot set: each point keeps its value once it has left the disc."""

    def escape(re: float, im: float, most: int) -> tuple[int, complex]:
        z = 0j
        for turn in range(most):
            z = complex(z.real * z.real - z.imag * z.imag + re, 2 * z.real * z.imag + im)
            if z.real * z.real + z.imag * z.imag > 4:
                return turn + 1, z
        return most, z

    points = [(-2 + 0.31 * i, -1.2 + 0.29 * j) for j in range(9) for i in range(9)]
    c_re, c_im = (Tensor([p[k] for p in points], float64).reshape(9, 9) for k in range(2))

    def body(turn: Tensor, z: tuple[Tensor, Tensor]) -> Turn:
        re, im = z
        re, im = re * re - im * im + c_re, 2 * re * im + c_im
        return Turn((re, im), stop=re * re + im * im > 4)

    result = loop(40, body, (c_re * 0, c_im * 0))
    wanted = [escape(*p, 40) for p in points]
    assert result.turns.flatten().tolist() == [turns for turns, _ in wanted]
    assert result.carries[0].flatten().tolist() == [z.real for _, z in wanted]
    whole = loop(40, lambda t, z: Turn(body(t, z).carries, stop=body(t, z).stop.all()), (c_re * 0, c_im * 0))
    assert whole.turns.item() == 40


def test_conditions_choose_a_branch_or_a_lane() -> None:
    x = Tensor([1.0, 2.0])

    def branch(sign: int) -> Any:
        return lambda y: {"sum": (x * sign + y).sum(), "x": x}

    for flag, sum_ in ((True, 13.0), (False, 7.0)):
        assert cond(Tensor(flag), branch(1), branch(-1), Tensor(5.0))["sum"].item() == sum_
    lanes = cond(x > 1.5, lambda y: y * 10, lambda y: y - 1, x)
    assert lanes.tolist() == [0.0, 20.0]


def test_only_the_chosen_branch_computes() -> None:
    x, index = Tensor([1.0, 2.0]), Tensor([5])
    assert cond(Tensor(True), lambda: x * 2, lambda: x[index].sum() + x).tolist() == [2.0, 4.0]
    with pytest.raises(BoundsError):
        cond(Tensor(False), lambda: x * 2, lambda: x[index].sum() + x)


def test_random_bits_differ_from_turn_to_turn_and_both_branches_reserve_their_calls() -> None:
    generator = Generator(3)

    def inner(turn: Tensor, _: Any) -> Turn:
        return Turn((), generator.bits(4))

    flat = loop(3, inner, ()).stacked
    assert generator.state.ordinal == 1
    assert len({word for row in flat.tolist() for word in row}) == 12
    assert flat.tolist()[0] == Generator(3).bits(4).tolist()
    nested = loop(3, lambda turn, _: Turn((), loop(2, inner, ()).stacked), ()).stacked
    assert len({word for row in nested.flatten().tolist() for word in [row]}) == 24
    cond(Tensor(True), lambda: generator.bits(1), lambda: generator.bits(1))
    assert generator.state.ordinal == 4


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (
            lambda turn, c: {"a": c["a"][None]},
            ShapeError,
            r"carries\['a'\] has shape \(2,\) before a turn and",
        ),
        (lambda turn, c: {"a": c["a"] > 0}, DTypeError, r"carries\['a'\] is float32 before a turn and bool"),
        (lambda turn, c: c["a"], TracingError, r"takes carries\['a'\] and gives carries;"),
        (lambda turn, c: c if turn > 0 else {}, TracingError, "that is unknown while a function is traced"),
        (lambda turn, c: Turn(c, stop=turn), DTypeError, "stop is int64; it must be bool"),
        (
            lambda turn, c: Turn(c, stop=turn > Tensor([1, 2, 3])),
            ShapeError,
            r"has shape \(2,\) and stop \(3,\)",
        ),
    ],
)
def test_what_a_body_must_not_do_names_the_line(body: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=rf"test_regions\.py:\d+: .*{message}"):
        loop(3, body, {"a": Tensor([1.0, 2.0])})


def test_a_body_that_rebinds_what_is_outside_is_refused_and_changes_nothing() -> None:
    total = Tensor(0.0)

    def body(turn: Tensor, x: Tensor) -> Tensor:
        nonlocal total
        total += x
        return x

    with pytest.raises(TracingError, match=r"test_regions\.py:\d+: the body rebinds a tensor from outside"):
        loop(3, body, Tensor(1.0))
    assert total.item() == 0.0


def test_wrong_trips_predicates_and_branches_are_named() -> None:
    x = Tensor([1.0, 2.0])
    with pytest.raises(TypeError, match=r"trip is 2\.5; it must be an int"):
        loop(2.5, lambda turn, x: x, x)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="it must be an integer scalar"):
        loop(x, lambda turn, x: x, x)
    with pytest.raises(ValueError, match="most bounds a trip that is a Tensor"):
        loop(3, lambda turn, x: x, x, most=4)
    with pytest.raises(ShapeError, match="needs a limit of turns"):
        loop(Tensor(3), lambda turn, x: Turn(x, x), x)
    with pytest.raises(DTypeError, match="the predicate of cond is float32"):
        cond(x.sum(), lambda: x, lambda: x)
    with pytest.raises(ShapeError, match=r"result has shape \(2,\) in one branch and \(\) in the other"):
        cond(Tensor(True), lambda: x, x.sum)
    with pytest.raises(TracingError, match="both give one structure"):
        cond(Tensor(True), lambda: x, lambda: (x, x))


def test_invariants_leave_the_body_and_rows_need_no_check() -> None:
    graph = Graph()
    with graph:
        x, w = graph.input("x", (4, 3)), graph.input("w", (3,))
        result = loop(4, lambda turn, c: c * (w * 2.0).exp() + x[turn], x[0]).carries
    (node,) = [node for node in post_order([result._value.node]) if node.op == "loop"]
    assert [own.op for own in node.attrs[0].nodes] == ["mul", "gather", "add"]
    assert node.attrs[0].nodes[1].attrs == ("clamp",)


# ---- in graphs and plans


def everything(graph: Graph) -> list[Any]:
    """Loops of every sort, over n rows."""
    x, k = graph.input("x", ("n", 3)), graph.input("k", (), int64)
    n = graph.symbol("n")
    w = Tensor([[2.0, 3.0, 4.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.5]]) * 0.3

    def recurrent(turn: Tensor, carries: Any) -> Turn:
        hidden, count = carries
        hidden = (hidden @ w + x[turn]).tanh()
        return Turn((hidden, count + 1), (hidden.sum(), turn), hidden.sum() < -2)

    first = x.sum(axis=0, keepdims=True) * 0
    rows = loop(n, recurrent, (first, 0))
    counted = loop(k, lambda turn, c: c * 1.5 + x.sum(), 1.0, most=10)
    lanes = loop(8, lambda turn, c: Turn(c * c + x, c * 2, c > 4), x * 0)
    turned = loop(3, lambda turn, c: (c[1], c[0], c[2]), (x, x * 2, x * 3))
    within = loop(
        3,
        lambda turn, c: loop(k, lambda u, d: d * 0.5 + c * turn + x[u % 2].sum(), c, most=n).carries,
        x.sum(),
    )
    chosen = cond(
        x.sum() > 0,
        lambda: (x * 2, loop(3, lambda turn, c: c + x[turn % 2], x.sum(axis=0)).carries),
        lambda: (x - 1, x.sum(axis=0)),
    )
    return [rows, counted, lanes, turned.carries, within.carries, chosen]


FEEDS = [
    {"x": Tensor([[0.1, 0.2, 0.3], [0.5, -1.0, 2.0], [1.0, 1.0, 1.0]]), "k": Tensor(4)},
    {"x": Tensor([[-0.1, -0.2, -0.3], [-0.5, 1.0, -2.0]]), "k": Tensor(-1)},
    {"x": Tensor([[-0.1, -0.2, -0.3]] * 9), "k": Tensor(50)},
]


def flat(tree: Any) -> list[Any]:
    return [x.tolist() for x in engine.tracing.pytree.flatten(tree)[1]]


@needs_compiler
def test_plans_have_the_bits_of_the_interpreter_at_every_size() -> None:
    graph = Graph()
    with graph:
        targets = everything(graph)
    plan = graph.compile(targets)
    for feeds in FEEDS:
        assert plan.verify(feeds), str(plan.verify(feeds))
        with use_device(ReferenceDevice()):
            reference = flat(graph.interpret(targets, feeds))
        for got, wanted in zip(flat(plan.run(feeds)), reference, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-6)
    text = plan.describe({"n": 3})
    assert "each turn" in text
    assert "otherwise" in text
    assert plan.source().count("#include") > 1
    assert plan.profile(FEEDS[0]).seconds > 0


@needs_compiler
def test_a_checked_index_ends_a_run_from_within_nested_loops() -> None:
    graph = Graph()
    with graph:
        x, k = graph.input("x", ("n",)), graph.input("k", (), int64)

        def outer(turn: Tensor, c: Tensor) -> Tensor:
            inner = loop(k, lambda u, d: cond(d > 0, lambda: d + x[u + turn], lambda: d), c, most=100)
            return inner.carries

        result = loop(3, outer, 1.0).carries
    plan = graph.compile(result)
    assert plan.run({"x": [1.0, 2.0, 3.0, 4.0], "k": 2}).item() == 16.0
    with pytest.raises(BoundsError, match="index 4 is out of range"):
        plan.run({"x": [1.0, 2.0, 3.0, 4.0], "k": 4})


@needs_compiler
def test_compiled_functions_record_loops_with_the_bits_of_eager() -> None:
    generator = Generator(5)
    w = Tensor([0.5, 0.25])

    def function(x: Tensor) -> Tensor:
        def body(turn: Tensor, c: Tensor) -> Turn:
            return Turn(c * w + generator.uniform(2), stop=c.sum() > 3.0)

        return loop(9, body, x).carries

    eager = [function(Tensor([1.0, 2.0])).tolist() for _ in range(2)]
    generator.seed(5)
    compiled = engine.compile(function)
    assert [compiled(Tensor([1.0, 2.0])).tolist() for _ in range(2)] == eager
    w.assign(Tensor([0.0, 0.0]))
    assert compiled(Tensor([1.0, 2.0])).tolist() == pytest.approx(
        function(Tensor([1.0, 2.0])).tolist(), abs=1
    )


@needs_compiler
def test_blueprints_with_loops_come_back_from_their_files(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.compiler.plan_cache.LEAST_NODES", 1)
    cache = PlanCache(tmp_path, "target")

    def blueprint() -> Any:
        graph = Graph()
        with graph:
            _, nodes, _ = graph._targets(everything(graph))
        return cache.blueprint(nodes, ())

    drawn = blueprint()
    assert blueprint().texts() == drawn.texts()
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_not_recorded_in_a_body_is_detached() -> None:
    x = Tensor([1.0, 2.0])

    def body(turn: Tensor, c: Tensor) -> Tensor:
        with no_grad():
            y = c * x
        return y + c.detach()

    graph = Graph()
    with graph:
        result = loop(2, body, graph.input("c", (2,))).carries
    (node,) = [node for node in post_order([result._value.node]) if node.op == "loop"]
    assert [own.op for own in node.attrs[0].nodes].count("detach") == 2


@needs_compiler
def test_a_compiled_training_step_through_a_loop_has_the_bits_of_eager() -> None:
    def run(compiled: bool) -> list[bytes]:
        generator = Generator(4)
        w = Tensor(generator.normal(3, 3) * 0.5, requires_grad=True)
        b_ = Tensor(generator.normal(3), requires_grad=True)
        optimiser = engine.optim.Adam([w, b_], lr=0.1)

        def step(rows: Tensor, target: Tensor) -> Tensor:
            def body(turn: Tensor, hidden: Tensor) -> Tensor:
                return (hidden @ w + rows[turn] + b_ + generator.normal(2, 3) * 0.01).tanh()

            hidden = loop(5, body, Tensor.zeros(2, 3)).carries
            loss = ((hidden - target) * (hidden - target)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            return loss

        own = engine.compile(step) if compiled else step
        rows, target = generator.normal(5, 2, 3), generator.normal(2, 3)
        losses = [own(rows, target) for _ in range(4)]
        assert losses[-1].item() < losses[0].item()
        return [x.tobytes() for x in (*losses, w, b_)]

    assert run(compiled=True) == run(compiled=False)


def test_the_gradient_in_eager_takes_no_turn_of_the_forward_loop_again() -> None:
    class Counting(ReferenceDevice):
        def __init__(self) -> None:
            self.loops = 0

        def run_region(self, op: str, attrs: Any, inputs: Any) -> Any:
            self.loops += 1
            return super().run_region(op, attrs, inputs)

    device = Counting()
    with use_device(device):
        x = Tensor([1.0, 2.0], requires_grad=True)
        result = loop(3, lambda turn, c: (c * c).sin(), x)
        result.carries.sum().backward()
    assert device.loops == 2


@needs_compiler
def test_lanes_that_stop_run_in_a_kernel_and_a_common_stop_as_a_plan_within_the_plan() -> None:
    graph = Graph()
    with graph:
        c_re, c_im = graph.input("re", ("n",), float64), graph.input("im", ("n",), float64)

        def body(turn: Tensor, z: tuple[Tensor, Tensor]) -> Turn:
            re, im = z
            re, im = re * re - im * im + c_re, 2 * re * im + c_im
            return Turn((re, im), stop=re * re + im * im > 4)

        def whole(turn: Tensor, z: tuple[Tensor, Tensor]) -> Turn:
            left = body(turn, z)
            assert left.stop is not None
            return Turn(left.carries, stop=left.stop.any())

        zero = c_re * 0
        lanes, common = loop(50, body, (zero, zero)), loop(50, whole, (zero, zero))
    feeds = {
        "re": Tensor([-2 + 0.05 * i for i in range(60)], float64),
        "im": Tensor([0.3] * 60, float64),
    }
    plan = graph.compile([lanes.turns, common.turns, lanes.carries, common.carries])
    assert plan.verify(feeds)
    turns, first = plan.run(feeds)[:2]
    assert first.item() == min(turns.tolist())
    assert max(turns.tolist()) == 50
    described = [line for line in plan.describe({"n": 60}).splitlines() if line.startswith("wave")]
    assert sum("loop (nested)" in line for line in described) == 1
