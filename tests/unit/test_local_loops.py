"""Loops that a kernel runs for each element: which those are; a simulation of paths is one kernel."""

from __future__ import annotations

from math import erf, exp, log, pi, sqrt
from pathlib import Path

import numpy as np
import pytest
from plan_graphs import compare

from engine import Graph, Tensor, Turn, loop
from engine.autodiff.differentiate import differentiate
from engine.autodiff.merge import merge
from engine.compiler import plan_cache
from engine.compiler.cluster import Cluster, Hosted
from engine.compiler.fuse import MOST_TURNING, Fusion
from engine.compiler.plan import Plan
from engine.compiler.plan_cache import PlanCache
from engine.compiler.same_turns import united
from engine.compiler.simplify import simplify
from engine.compiler.steps import FusedStep
from engine.core import build as b
from engine.core.dim import Dim, symbol
from engine.core.dtype import bfloat16, bool_, float32, float64, int64, uint32
from engine.core.node import Node
from engine.core.region import LoopBody
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.toolchain import find_toolchain

if find_toolchain() is None:
    pytest.skip("no C compiler here", allow_module_level=True)

CPU = CpuDevice(threads=2)
LANES, STEPS = 200_000, 252


def fused(targets: list[Node]) -> Fusion:
    targets = united(simplify(targets))
    return Fusion(*merge(targets), targets)


def homes(targets: list[Node]) -> list[type]:
    """Where the loops run: within kernels, or as plans within the plan."""
    return [type(step) for node, step in fused(targets).home.items() if node.op == "loop"]


def spread(x: Node, *shape: Dim) -> Node:
    return b.broadcast(x, shape)


def uniform(high: Node, low: Node) -> Node:
    """Two words of random bits as a number below 1."""

    def part(word: Node, shift: int, scale: float) -> Node:
        shifted = b.shr(word, b.full(word.shape, uint32, shift))
        return b.mul(b.cast(shifted, float64), b.full(word.shape, float64, scale))

    return b.add(part(high, 5, 2.0**-27), part(low, 6, 2.0**-53))


def normals(key: Node, ordinal: Node, turn: Node, lanes: Dim) -> tuple[Node, Node]:
    """Two normal numbers a lane from one block of the generator (Box and Muller 1958)."""
    bits = b.random_bits(key, ordinal, (lanes, 4), b.cast(turn, uint32))
    words = [b.reshape(b.take(bits, 1, k, 1), (lanes,)) for k in range(4)]
    first = b.sub(b.full((lanes,), float64, 1), uniform(words[0], words[1]))
    radius = b.sqrt(b.mul(b.log(first), b.full((lanes,), float64, -2)))
    angle = b.mul(uniform(words[2], words[3]), b.full((lanes,), float64, 2 * pi))
    return b.mul(radius, b.cos(angle)), b.mul(radius, b.sin(angle))


def asian(lanes: Dim, steps: int) -> tuple[list[Node], list[Node]]:
    """The inputs, and the sums of an arithmetic Asian call's payoffs and of their squares, undiscounted.

    A turn is two steps of a geometric Brownian motion.
    """
    key, ordinal = b.input((2,), uint32), b.input((), uint32)
    spot, drift, volatility, strike = (b.input((), float64) for _ in range(4))
    turn, key_in, ordinal_in = b.input((), int64), b.input((2,), uint32), b.input((), uint32)
    s, total, mu, sigma = (b.input((lanes,), float64) for _ in range(4))
    one, two = normals(key_in, ordinal_in, turn, lanes)
    first = b.mul(s, b.exp(b.add(mu, b.mul(sigma, one))))
    second = b.mul(first, b.exp(b.add(mu, b.mul(sigma, two))))
    after = b.add(b.add(total, first), second)
    body = LoopBody(turn, (s, total), (key_in, ordinal_in, mu, sigma), (second, after))
    constants = (key, ordinal, spread(drift, lanes), spread(volatility, lanes))
    loop = b.loop(body, (spread(spot, lanes), b.full((lanes,), float64, 0)), constants, steps // 2)
    mean = b.mul(b.item(loop, 2), b.full((lanes,), float64, 1 / steps))
    payoff = b.max(b.sub(mean, spread(strike, lanes)), b.full((lanes,), float64, 0))
    sums = [b.sum(payoff, (0,)), b.sum(b.mul(payoff, payoff), (0,))]
    return [key, ordinal, spot, drift, volatility, strike], sums


def numbers(*values: float) -> list[Array]:
    key, ordinal = Array.from_list([7, 9], (2,), uint32), Array.from_list([3], (), uint32)
    return [key, ordinal, *[Array.from_list([value], (), float64) for value in values]]


def test_a_simulation_of_paths_is_one_kernel() -> None:
    leaves, sums = asian(LANES, STEPS)
    plan = Plan(leaves, sums, CPU)
    steps = [step for step in plan.blueprint.steps if isinstance(step, FusedStep)]
    assert len(steps) == len(plan.blueprint.steps)
    assert [step.lowered.kernel.kind for step in steps] == ["blocks", "total", "total"]
    assert plan.source().count("for (; t") == 1


def test_its_gradient_is_in_the_same_kernel() -> None:
    leaves, (value, _) = asian(LANES, STEPS)
    plan = Plan(leaves, [value, *differentiate([value], leaves[2:])], CPU)
    kinds = [
        step.lowered.kernel.kind
        for step in plan.blueprint.steps
        if isinstance(step, FusedStep) and not step.fixed
    ]
    assert sorted(kinds) == ["blocks", *["total"] * 5]
    assert plan.source().count("for (; t") == 2  # there and back


def test_a_simulation_has_the_price_of_its_model() -> None:
    """The geometric mean of these steps has a known price; the arithmetic one's is a little above it."""
    steps, rate, sigma, spot, strike = 12, 0.05, 0.3, 100.0, 95.0
    leaves, sums = asian(100_000, steps)
    dt = 1 / steps
    feeds = dict(
        zip(leaves, numbers(spot, (rate - sigma**2 / 2) * dt, sigma * sqrt(dt), strike), strict=True)
    )
    total, squares = (x.tolist() for x in Plan(leaves, sums, CPU).run(feeds))
    mean, deviation = total / 1e5, sqrt(squares / 1e5 - (total / 1e5) ** 2)
    variance = sigma**2 * dt * (steps + 1) * (2 * steps + 1) / (6 * steps)
    center = log(spot) + (rate - sigma**2 / 2) * dt * (steps + 1) / 2
    d = (center - log(strike) + variance) / sqrt(variance)

    def cumulative(x: float) -> float:
        return 0.5 * (1 + erf(x / sqrt(2)))

    geometric = exp(center + variance / 2) * cumulative(d) - strike * cumulative(d - sqrt(variance))
    assert -4 * deviation / sqrt(1e5) < mean - geometric < 0.5 + 4 * deviation / sqrt(1e5)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("lanes", [1, 17, 5000])
def test_paths_and_gradients_have_the_bits_of_the_interpreter(lanes: int, threads: int) -> None:
    device = CpuDevice(threads=threads)
    try:
        leaves, (value, square) = asian(lanes, 6)
        targets = [value, square, *differentiate([value], leaves[2:])]
        random = np.random.default_rng(lanes)
        plan = Plan(leaves, targets, device)
        compare(plan, leaves, targets, device, random, {}, special=False)
    finally:
        CPU.native.set_threads(CPU.threads)


def escape(lanes: int, limit: int) -> tuple[list[Node], list[Node]]:
    """Turns until z² + c leaves a circle, for each of ``lanes`` numbers c, and where it was then."""
    c_real, c_imaginary = b.input((lanes,), float32), b.input((lanes,), float32)
    turn = b.input((), int64)
    x, y, p, q = (b.input((lanes,), float32) for _ in range(4))
    following = b.add(b.sub(b.mul(x, x), b.mul(y, y)), p), b.add(b.mul(b.add(x, x), y), q)
    size = b.add(b.mul(following[0], following[0]), b.mul(following[1], following[1]))
    body = LoopBody(turn, (x, y), (p, q), following, (), b.lt(b.full((lanes,), float32, 4), size))
    zero = b.full((lanes,), float32, 0)
    loop = b.loop(body, (zero, zero), (c_real, c_imaginary), limit)
    return [c_real, c_imaginary], [b.item(loop, k) for k in range(3)]


def within(shape: tuple[int, ...], depth: int, slices: bool = False) -> tuple[list[Node], Node]:
    """Loops in each other: the innermost ones move on by what those around them carry, and by rows."""
    x, rows = b.input(shape, float32), b.input((5, *shape), float32)

    def turn_of(level: int, carry: Node, held: Node, number: Node) -> tuple[Node, list[Node]]:
        if not level:
            return b.add(b.mul(carry, b.full(shape, float32, 0.75)), b.gather(held, (number,), "clamp")), []
        t, c, k = b.input((), int64), b.input(shape, float32), b.input(held.shape, float32)
        after, _ = turn_of(level - 1, c, k, t)
        body = LoopBody(t, (c,), (k,), (after,), (c,) if slices else ())
        loop = b.loop(body, (carry,), (held,), 3, b.add(number, b.constant(1, int64)))
        return b.tanh(b.item(loop, 1)), [b.item(loop, 2)] if slices else []

    t, c, k = b.input((), int64), b.input(shape, float32), b.input(rows.shape, float32)
    after, stacks = turn_of(depth - 1, c, k, t)
    if stacks:
        after = b.add(after, b.reduce(stacks[0], "sum", (0,)))
    return [x, rows], b.item(b.loop(LoopBody(t, (c,), (k,), (after,)), (x,), (rows,), 4), 1)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("threads", [1, 3])
def test_loops_in_a_loop_are_of_its_kernel(depth: int, threads: int) -> None:
    leaves, out = within((133,), depth)
    assert homes([out]) == [Cluster]
    plan = Plan(leaves, [out, b.sum(out, (0,))], CpuDevice(threads))
    assert plan.source().count("for (; t") == depth
    targets = [out, b.sum(out, (0,))]
    compare(plan, leaves, targets, CPU, np.random.default_rng(depth), {}, special=True)


def test_gradients_of_loops_in_a_loop_have_the_bits_of_the_interpreter() -> None:
    leaves, out = within((37,), 2)
    first = differentiate([out], leaves)
    second = differentiate([b.sum(b.mul(first[0], first[0]), (0,))], leaves[:1])
    targets = [out, *first, *second]
    compare(Plan(leaves, targets, CPU), leaves, targets, CPU, np.random.default_rng(3), {}, special=False)


def test_a_loop_with_one_that_stacks_is_a_plan() -> None:
    leaves, out = within((8,), 2, slices=True)
    fusion = fused([out])
    assert homes([out]) == [Hosted]
    assert "a loop in it stacks slices" in [refusal.reason for refusal in fusion.refusals]
    compare(Plan(leaves, [out], CPU), leaves, [out], CPU, np.random.default_rng(4), {})


def test_elements_stop_by_themselves_in_both_loops() -> None:
    """Rounds of growth until an element is large, until that took long: with Python's numbers."""
    start = [0.5, 1.0, 3.0, 7.5, 0.0] * 20

    def outer(turn: Tensor, carries: tuple[Tensor, Tensor]) -> Turn:
        x, count = carries
        grown = loop(12, lambda k, z: Turn(z * 1.5 + 0.25, stop=z > 6.0), x)
        count = count + grown.turns
        return Turn((grown.carries * 0.125, count), stop=count > 20)

    graph = Graph()
    with graph:
        x = graph.input("x", ("n",))
        result = loop(9, outer, (x, x.astype(int64) * 0))
    plan = graph.compile([*result.carries, result.turns])
    (step,) = plan.plan.blueprint.steps
    assert isinstance(step, FusedStep)
    assert plan.verify({"x": start})
    values, counts, turns = (own.tolist() for own in plan.run({"x": start}))
    for first, value, count, taken in zip(start, values, counts, turns, strict=True):
        z, total, rounds = first, 0, 0
        while rounds < 9 and total <= 20:
            for _ in range(12):
                large, z, total = z > 6.0, z * 1.5 + 0.25, total + 1
                if large:
                    break
            z, rounds = z * 0.125, rounds + 1
        assert (count, taken) == (total, rounds)
        assert value == pytest.approx(z, rel=1e-5)


def test_each_element_stops_by_itself() -> None:
    leaves, targets = escape(1000, 50)
    assert homes(targets) == [Cluster]
    points = np.random.default_rng(1).uniform(-1.5, 1.5, (2, 1000)).astype(np.float32)
    arrays = [Array.from_list(row.tolist(), (1000,), float32) for row in points]
    turns = Plan(leaves, targets, CPU).run(dict(zip(leaves, arrays, strict=True)))[0].tolist()
    for k in range(1000):
        z, c, count = np.complex64(0), np.complex64(complex(points[0, k], points[1, k])), 0
        while count < 50 and abs(z) <= 2:
            z, count = np.complex64(z * z + c), count + 1
        assert abs(turns[k] - count) <= (2 if count > 40 else 0)
    compare(Plan(leaves, targets, CPU), leaves, targets, CPU, np.random.default_rng(2), {})


def scan_of(rows: Dim, lanes: Dim, stack: bool = True) -> tuple[list[Node], list[Node]]:
    """A running sum of the rows of a table with its stack, as a loop that picks a row a turn."""
    table = b.input((rows, lanes), float64)
    turn, carry, constant = b.input((), int64), b.input((lanes,), float64), b.input((rows, lanes), float64)
    following = b.add(carry, b.gather(constant, (turn,), "clamp"))
    body = LoopBody(turn, (carry,), (constant,), (following,), (following,) if stack else ())
    loop = b.loop(body, (b.full((lanes,), float64, 0),), (table,), rows)
    return [table], [b.item(loop, k) for k in ((1, 2) if stack else (1,))]


def test_rows_are_picked_and_stacked() -> None:
    leaves, targets = scan_of(5, 70)
    assert homes(targets) == [Cluster]
    table = np.random.default_rng(1).normal(size=(5, 70))
    total, stack = Plan(leaves, targets, CPU).run(
        {leaves[0]: Array.from_list(table.ravel().tolist(), (5, 70), float64)}
    )
    assert np.array_equal(np.array(stack.tolist()), np.cumsum(table, 0))
    assert total.tolist() == stack.tolist()[-1]


def reducing(shape: tuple[int, ...]) -> Node:
    carry = b.input(shape, float32)
    half = b.mul(carry, b.full(shape, float32, 0.5))
    return b.loop(
        LoopBody(b.input((), int64), (carry,), (), (b.add(half, spread(b.sum(carry, (0,)), *shape)),)),
        (b.input(shape, float32),),
        (),
        3,
    )


def turning(shape: tuple[int, ...]) -> Node:
    carry = b.input(shape, float32)
    body = LoopBody(b.input((), int64), (carry,), (), (b.add(carry, b.flip(carry, 0)),))
    return b.loop(body, (b.input(shape, float32),), (), 3)


def counting(shape: tuple[int, ...]) -> Node:
    carry, count = b.input(shape, float32), b.input((), float32)
    body = LoopBody(b.input((), int64), (carry, count), (), (b.neg(carry), b.add(count, b.ones_like(count))))
    return b.loop(body, (b.input(shape, float32), b.input((), float32)), (), 3)


def standing(shape: tuple[int, ...]) -> Node:
    carry = b.input(shape, bfloat16)
    return b.loop(LoopBody(b.input((), int64), (carry,), (), (carry,)), (b.input(shape, bfloat16),), (), 3)


@pytest.mark.parametrize(
    ("loop", "items", "reason"),
    [
        (standing((8,)), (1,), "its elements are bfloat16"),
        (reducing((8,)), (1,), "it has a reduce"),
        (turning((8,)), (1,), "its elements are read in another order"),
        (counting((8,)), (1, 2), "its result 2 is the same for all elements of the others"),
    ],
)
def test_other_loops_are_plans_and_the_reason_is_kept(
    loop: Node, items: tuple[int, ...], reason: str
) -> None:
    targets = [b.item(loop, k) for k in items]
    fusion = fused(targets)
    assert homes(targets) == [Hosted]
    assert reason in [refusal.reason for refusal in fusion.refusals]


def test_what_is_the_same_for_all_elements_may_be_carried() -> None:
    loop = counting((8,))
    assert homes([b.item(loop, 1)]) == [Cluster]


def test_loops_that_take_the_same_turns_are_one() -> None:
    leaves, (value, square) = asian(64, 4)
    targets = united(simplify([value, square, *differentiate([value], leaves[2:])]))
    loops = [node for node in post_order(targets) if node.op == "loop"]
    assert len(loops) == 2
    random = np.random.default_rng(1)
    compare(Plan(leaves, targets, CPU), leaves, targets, CPU, random, {}, special=False)


def test_blueprints_come_back_from_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "LEAST_NODES", 0)
    leaves, (value, square) = asian(64, 4)
    targets = [value, square, *differentiate([value], leaves[2:])]
    made = PlanCache(tmp_path, "here").blueprint(targets, [])
    monkeypatch.delattr(plan_cache, "draw")
    found = PlanCache(tmp_path, "here").blueprint(targets, [])
    assert found.text == made.text
    for own, other in zip(found.steps, made.steps, strict=True):
        assert isinstance(own, FusedStep)
        assert isinstance(other, FusedStep)
        assert (own.lowered.kernel, own.lowered.counters) == (other.lowered.kernel, other.lowered.counters)


def test_a_loop_of_bools_and_of_no_turns() -> None:
    flags = b.input((33,), bool_)
    carry = b.input((33,), bool_)
    body = LoopBody(b.input((), int64), (carry,), (), (b.not_(carry),), (carry,))
    count = b.input((), int64)
    loop = b.loop(body, (flags,), (), 4, count)
    targets = [b.item(loop, 1), b.item(loop, 2)]
    assert homes(targets) == [Cluster]
    plan = Plan([flags, count], targets, CPU)
    start = [k % 3 == 0 for k in range(33)]
    for turns in (0, 1, 3, 9, -2):
        taken = min(max(turns, 0), 4)
        feeds = {flags: Array.from_list(start, (33,), bool_), count: Array.from_list([turns], (), int64)}
        last, stack = plan.run(feeds)
        flipped = [not flag for flag in start]
        assert last.tolist() == (flipped if taken % 2 else start)
        rows = [flipped if k % 2 else start for k in range(taken)]
        assert stack.tolist() == rows + [[False] * 33] * (4 - taken)


def test_a_way_back_that_waits_for_its_row_finds_the_turns_kept() -> None:
    """The gradient's loop runs in a later pass along the row than the one whose turns it goes back over."""
    shape = (5, 70)
    x, w = b.input(shape, float32), b.input(shape, float32)
    turn, carry, constant = b.input((), int64), b.input(shape, float32), b.input(shape, float32)
    body = LoopBody(turn, (carry,), (constant,), (b.mul(carry, b.sin(constant)),))
    out = b.item(b.loop(body, (x,), (w,), 3), 1)
    weights = b.exp(b.sub(out, b.expand(b.reduce(out, "max", (1,)), (1,), shape)))
    soft = b.div(weights, b.expand(b.sum(weights, (1,)), (1,), shape))
    targets = differentiate([b.mul(soft, soft)], [x, w])
    compare(Plan([x, w], targets, CPU), [x, w], targets, CPU, np.random.default_rng(1), {}, special=False)


def test_the_loops_of_a_kernel_are_bounded() -> None:
    """What takes long to build is cut: a chain of many loops is several kernels."""
    shape = (100,)
    node = b.input(shape, float32)
    for k in range(MOST_TURNING):
        turn, carry = b.input((), int64), b.input(shape, float32)
        scaled = b.mul(carry, b.full(shape, float32, k))
        loop = b.loop(LoopBody(turn, (carry,), (), (b.add(carry, scaled),)), (node,), (), 3)
        node = b.item(loop, 1)
    fusion = fused([node])
    clusters = [step for step in fusion.steps if isinstance(step, Cluster)]
    sizes = [
        sum(len(fusion.loops[own].order) for own in step.nodes if own in fusion.loops) for step in clusters
    ]
    assert len(clusters) > 1
    assert max(sizes) <= MOST_TURNING


def test_one_plan_serves_every_number_of_turns_and_elements() -> None:
    leaves, targets = scan_of(symbol("turns"), symbol("lanes"))
    plan = Plan(leaves, targets, CPU)
    for turns, lanes in ((0, 5), (1, 0), (1, 1), (3, 33), (7, 1000)):
        sizes = {"turns": turns, "lanes": lanes}
        compare(plan, leaves, targets, CPU, np.random.default_rng(turns), sizes)
