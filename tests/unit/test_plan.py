"""Plans: feeds, states, sessions, checks, threads and sizes, against one node a kernel."""

from __future__ import annotations

import threading

import pytest
from plan_training import gpt, training_step

from engine.compiler.memory import overlapping
from engine.compiler.plan import Plan
from engine.core import build as b
from engine.core.dim import symbol
from engine.core.dtype import bfloat16, float32, float64, int64, uint32
from engine.core.node import Node
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.evaluate import evaluate
from engine.devices.toolchain import find_toolchain
from engine.errors import BoundsError, DTypeError, ShapeError

if find_toolchain() is None:
    pytest.skip("no C compiler here", allow_module_level=True)

CPU = CpuDevice(threads=2)


def numbers(shape: tuple[int, ...], start: float = 0.0, dtype: object = float32) -> Array:
    count = 1
    for size in shape:
        count *= size
    return Array.from_list([start + 0.37 * k % 5 - 2 for k in range(count)], shape, dtype)  # type: ignore[arg-type]


def expected(targets: list[Node], values: dict[Node, Array]) -> list[bytes]:
    """What one node a kernel gives; the graph is left without values."""
    nodes = [node for node in post_order(targets) if node.inputs or node in values]
    for node in nodes:
        node.value = values.get(node)
    found = [x.tobytes() for x in evaluate(targets, CPU)]
    for node in nodes:
        node.value = None
    return found


def same(results: list[Array], wanted: list[bytes]) -> bool:
    return [x.tobytes() for x in results] == wanted


# ---- running


def test_inputs_are_fed_by_node_or_by_name() -> None:
    x, w = b.input((3, 5), float32), b.parameter("w", (3, 5), float32)
    plan = Plan([x, w], [b.add(x, w)], CPU, names={"x": x})
    feeds = {x: numbers((3, 5)), w: numbers((3, 5), 1)}
    wanted = expected([b.add(x, w)], feeds)
    assert same(plan.run(feeds), wanted)
    assert same(plan.run({"x": feeds[x], "w": feeds[w]}), wanted)


def test_operands_that_are_not_row_major_are_laid_out() -> None:
    x = b.input((4, 6), float32)
    plan = Plan([x], [b.exp(x)], CPU)
    turned = Array(numbers((6, 4)).storage, 0, (4, 6), (1, 4), float32)
    repeated = Array(numbers((4, 1)).storage, 0, (4, 6), (1, 0), float32)
    for value in (turned, repeated):
        assert same(plan.run({x: value}), expected([b.exp(x)], {x: value}))


@pytest.mark.parametrize(
    ("feeds", "error", "message"),
    [
        ({}, KeyError, "feeds lack x, y"),
        ({"x": numbers((2, 3))}, KeyError, "feeds lack y"),
        ({"x": numbers((2, 3)), "z": numbers((2, 3))}, KeyError, "no input 'z'"),
        ({"x": numbers((2, 3)), "y": numbers((3, 2))}, ShapeError, "y has shape"),
        ({"x": numbers((2, 3)), "y": numbers((6,))}, ShapeError, "y has shape"),
        (
            {"x": numbers((2, 3)), "y": numbers((2, 3), dtype=float64)},
            DTypeError,
            "y takes float32, got float64",
        ),
    ],
)
def test_feeds_that_do_not_fit_are_refused(feeds: dict[str, Array], error: type, message: str) -> None:
    x, y = b.input((2, 3), float32), b.input((2, 3), float32)
    plan = Plan([x, y], [b.add(x, y)], CPU, names={"x": x, "y": y})
    with pytest.raises(error, match=message):
        plan.run(feeds)


def test_results_stay_as_they_are_when_the_plan_runs_again() -> None:
    x = b.input((64,), float32)
    plan = Plan([x], [b.exp(x)], CPU)
    (first,) = plan.run({x: numbers((64,))})
    kept = first.tobytes()
    plan.run({x: numbers((64,), 1)})
    assert first.tobytes() == kept


def test_targets_may_be_views_inputs_and_constants() -> None:
    x = b.input((2, 3), float32)
    doubled = b.add(x, x)
    targets = [b.transpose(doubled, (1, 0)), x, b.full((2,), float32, 7.0), doubled, b.iota((3, 2), 0, int64)]
    plan = Plan([x], targets, CPU)
    assert same(plan.run({x: numbers((2, 3))}), expected(targets, {x: numbers((2, 3))}))


def test_a_leaf_that_is_no_input_keeps_its_value() -> None:
    x, held = b.input((3,), float32), b.input((3,), float32)
    held.value = numbers((3,), 4)
    plan = Plan([x], [b.mul(x, held)], CPU)
    (result,) = plan.run({x: numbers((3,))})
    assert result.tobytes() == expected([b.mul(x, held)], {x: numbers((3,)), held: numbers((3,), 4)})[0]


def everything(m: object) -> tuple[list[Node], list[Node]]:
    """Primitives whose kernels are not one fused launch, for ``m`` rows."""
    x, i = b.input((m, 6), float32), b.input((4,), int64)  # type: ignore[arg-type]
    y = b.cast(x, bfloat16)
    one = b.constant(1, float32)
    targets = [
        b.scan(x, "sum", 0, True),
        b.scan(x, "max", 1, False),
        b.concat((x, b.exp(x), x), 0),
        b.pad(x, one, (1, 2), (0, 3)),
        b.gather(x, (i,), "checked"),
        b.scatter(x, (i,), b.gather(x, (i,), "clamp"), "add", "wrap"),
        b.argreduce(x, "max", 1),
        b.dot(x, b.transpose(x, (1, 0))),
        b.cast(b.add(y, y), float64),
        b.cast(b.cast(y, int64), bfloat16),
        b.reduce(y, "sum", (1,)),
        b.reshape(b.transpose(x, (1, 0)), (x.shape[0] * 6,)),
        b.random_bits(b.cast(b.iota((2,), 0, int64), uint32), b.constant(3, uint32), x.shape),
    ]
    return [x, i], targets


@pytest.mark.parametrize("rows", [4, 5, 33])
def test_every_primitive_is_launched(rows: int) -> None:
    inputs, targets = everything(rows)
    feeds = {inputs[0]: numbers((rows, 6)), inputs[1]: Array.from_list([3, 0, 3, 1], (4,), int64)}
    assert same(Plan(inputs, targets, CPU).run(feeds), expected(targets, feeds))


def test_one_plan_serves_all_sizes() -> None:
    inputs, targets = everything(symbol("rows"))
    plan = Plan(inputs, targets, CPU)
    for rows in (4, 5, 33, 1000):
        own, concrete = everything(rows)
        values = [numbers((rows, 6)), Array.from_list([3, 0, 3, 1], (4,), int64)]
        got = plan.run(dict(zip(inputs, values, strict=True)))
        assert same(got, expected(concrete, dict(zip(own, values, strict=True))))


def test_a_plan_forgets_the_first_of_very_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.compiler.plan.MOST_BINDINGS", 3)
    x = b.input((symbol("n"),), float32)
    plan = Plan([x], [b.exp(x)], CPU)
    first = plan.bind({"n": 1})
    for n in (2, 3, 1, 4, 2):
        assert plan.run({x: numbers((n,))})[0].shape == (n,)
    assert plan.bind({"n": 1}) is not first


def test_sizes_follow_from_a_dimension_that_holds_more_than_the_symbol() -> None:
    rows = symbol("rows")
    x, y = b.input((rows * 2 + 1,), float32), b.input((rows,), float32)
    plan = Plan([x, y], [b.sum(x, (0,)), b.exp(y)], CPU)
    assert plan.run({x: numbers((9,)), y: numbers((4,))})[1].shape == (4,)
    with pytest.raises(ShapeError, match="where rows = 4"):
        plan.run({x: numbers((9,)), y: numbers((5,))})


# ---- checks


def test_a_checked_index_out_of_range_is_reported_as_one_node_a_kernel_does() -> None:
    x, i, j = b.input((3, 4), float32), b.input((2, 2), int64), b.input((2, 2), int64)
    target = b.exp(b.gather(x, (i, j), "checked"))
    plan = Plan([x, i, j], [target], CPU)
    good, bad = (
        [Array.from_list(own, (2, 2), int64) for own in (a, c)]
        for a, c in (([0, 1, 2, 0], [0, 1, 2, 3]), ([0, 1, 2, 0], [0, 1, 4, 3]))
    )
    feeds = dict(zip((x, i, j), (numbers((3, 4)), *good), strict=True))
    assert same(plan.run(feeds), expected([target], feeds))
    with pytest.raises(BoundsError) as reported:
        plan.run(dict(zip((x, i, j), (numbers((3, 4)), *bad), strict=True)))
    with pytest.raises(BoundsError) as alone:
        CPU.run("gather", ("checked",), [numbers((3, 4)), *bad], (2, 2), float32)
    assert str(reported.value) == str(alone.value)


def test_a_refused_run_leaves_the_states_alone() -> None:
    x, i = b.parameter("x", (8,), float32), b.input((2,), int64)
    picked = b.gather(b.exp(x), (i,), "checked")
    plan = Plan([x, i], [picked], CPU, states=[(x, b.add(x, x))])
    session = plan.session({x: numbers((8,))})
    session.run({i: Array.from_list([1, 2], (2,), int64)})
    before = session.read(x).tobytes()
    with pytest.raises(BoundsError):
        session.run({i: Array.from_list([1, 8], (2,), int64)})
    assert session.read(x).tobytes() == before


# ---- states


def test_a_session_goes_on_from_its_states() -> None:
    x, g = b.parameter("x", (5,), float32), b.input((5,), float32)
    plan = Plan([x, g], [b.sum(x, (0,))], CPU, states=[(x, b.sub(x, g))])
    assert plan.blueprint.in_place == (True,)
    session = plan.session({"x": numbers((5,))})
    value = numbers((5,))
    for turn in range(4):
        wanted = expected([b.sum(x, (0,)), b.sub(x, g)], {x: value, g: numbers((5,), turn)})
        assert same(session.run({g: numbers((5,), turn)}), wanted[:1])
        value = Array.from_bytes(wanted[1], (5,), float32)
        assert session.read("x").tobytes() == wanted[1]


def test_states_are_written_in_place_and_what_was_read_stays() -> None:
    x, g = b.parameter("x", (5,), float32), b.input((5,), float32)
    plan = Plan([x, g], [], CPU, states=[(x, b.sub(x, g))])
    first = numbers((5,))
    kept = first.tobytes()
    session = plan.session({x: first})
    session.run({g: numbers((5,))})
    assert first.tobytes() == kept
    address = session.read(x).address
    session.run({g: numbers((5,))})
    assert session.read(x).address == address
    held = session.read(x)
    kept = held.tobytes()
    session.run({g: numbers((5,))})
    assert held.tobytes() == kept
    assert session.read(x).address != held.address


def test_a_memoryview_of_a_state_stays_too() -> None:
    x = b.parameter("x", (5,), float32)
    plan = Plan([x], [], CPU, states=[(x, b.exp(x))])
    session = plan.session({x: numbers((5,))})
    session.run({})
    view = session.read(x).storage.buffer()
    kept = bytes(view)
    session.run({})
    session.run({})
    assert bytes(view) == kept


@pytest.mark.parametrize(
    "kind", ["swap", "shift", "shared", "view", "same", "constant", "product", "kept by a target"]
)
def test_states_of_every_kind(kind: str) -> None:
    shape = (4, 4)
    x, y = b.parameter("x", shape, float32), b.parameter("y", shape, float32)
    news = {
        "swap": (y, x),
        "shift": (b.add(x, y), x),
        "shared": (b.add(x, y), b.add(x, y)),
        "view": (b.transpose(x, (1, 0)), b.flip(y, 0)),
        "same": (x, b.exp(y)),
        "constant": (b.full(shape, float32, 2.0), b.broadcast(b.sum(x, (0,)), shape)),
        "product": (b.dot(x, y), b.add(x, y)),
        "kept by a target": (b.add(x, y), b.mul(x, y)),
    }[kind]
    targets = [b.sub(x, y), *([x, news[0]] if kind == "kept by a target" else [])]
    plan = Plan([x, y], targets, CPU, states=list(zip((x, y), news, strict=True)))
    values = {x: numbers(shape), y: numbers(shape, 1)}
    session = plan.session(values)
    handed: list[tuple[Array, bytes]] = []
    for _ in range(4):
        wanted = expected([*targets, *news], values)
        assert same(plan.run(values), wanted)
        results = session.run({})
        handed += [(x, x.tobytes()) for x in results]
        assert same(results, wanted[: len(targets)])
        values = {
            node: Array.from_bytes(raw, shape, float32)
            for node, raw in zip((x, y), wanted[len(targets) :], strict=True)
        }
        assert [session.read(node).tobytes() for node in (x, y)] == wanted[len(targets) :]
    assert all(result.tobytes() == raw for result, raw in handed)


def test_states_may_be_written_between_runs() -> None:
    x = b.parameter("x", (3,), float32)
    plan = Plan([x], [], CPU, states=[(x, b.add(x, x))])
    session = plan.session({x: numbers((3,))})
    session.run({})
    given = numbers((3,), 1)
    kept = given.tobytes()
    session.write("x", given)
    session.run({})
    assert given.tobytes() == kept
    assert session.read("x").tobytes() == expected([b.add(x, x)], {x: given})[0]


def test_states_that_do_not_fit_are_refused() -> None:
    x, y = b.parameter("x", (3,), float32), b.input((3,), float32)
    with pytest.raises(ValueError, match="shape and dtype must be the same"):
        Plan([x], [], CPU, states=[(x, b.sum(x, (0,)))])
    with pytest.raises(ValueError, match="no input of the plan"):
        Plan([x], [], CPU, states=[(y, x)])
    plan = Plan([x, y], [], CPU, states=[(x, b.add(x, y))])
    with pytest.raises(KeyError, match="a value for each state"):
        plan.session({})
    session = plan.session({x: numbers((3,))})
    with pytest.raises(KeyError, match="no state of the plan"):
        session.read(y)
    with pytest.raises(KeyError, match="x is a state"):
        session.run({x: numbers((3,))})


# ---- a training step


def test_a_training_step_is_one_call_without_copies_of_states() -> None:
    step = training_step(gpt(64, 2, 8), 4, 8)
    plan = Plan(step.inputs, [step.loss], CPU, states=step.states)
    assert all(plan.blueprint.in_place)
    binding = plan.bind({})
    updates = [wave for wave in binding.waves if any(_writes_state(plan, item) for item in wave.items)]
    assert len(updates) == 1
    assert binding.arena_bytes <= 0.65 * binding.buffer_bytes
    assert not overlapping(binding.arena_blocks(), binding.takeovers)
    session = plan.session(step.values)
    values = dict(step.values)
    news = [new for _, new in step.states]
    for turn in range(3):
        feeds = step.feeds(turn, turn + 1)
        wanted = expected([step.loss, *news], {**values, **feeds})
        assert same(session.run(feeds), wanted[:1])
        for (old, _), raw in zip(step.states, wanted[1:], strict=True):
            assert session.read(old).tobytes() == raw
            values[old] = Array.from_bytes(raw, old.shape, float32)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", [1, 8, 32])
def test_the_gpts_training_step_in_counts(batch: int) -> None:
    """550,977 parameters: few runs of the pool, weights and moments in place, half the memory."""
    step = training_step(gpt(128, 4, 32), batch, 32)
    plan = Plan(step.inputs, [step.loss], CPU, states=step.states)
    binding = plan.bind({})
    assert len(binding.waves) <= 96
    assert all(plan.blueprint.in_place)
    updates = [sum(_writes_state(plan, item) for item in wave.items) for wave in binding.waves]
    assert (
        max(updates) >= 53
    )  # of one sequence, the positions' gradient needs no sum: its kernel updates them
    assert sum(updates) == 54
    assert binding.arena_bytes <= 0.65 * binding.buffer_bytes
    assert not overlapping(binding.arena_blocks(), binding.takeovers)


def test_values_computed_again_save_memory_and_change_no_bit() -> None:
    step = training_step(gpt(64, 3, 16), 4, 16)
    plans = [Plan(step.inputs, [step.loss], CPU, states=step.states, remat=remat) for remat in (None, 0)]
    plain, again = (plan.bind({}) for plan in plans)
    assert again.arena_bytes < 0.9 * plain.arena_bytes
    assert len(again.blueprint.steps) > len(plain.blueprint.steps)
    products = [
        sum("dot" in [node.op for node in own.nodes] for own in binding.blueprint.steps)
        for binding in (plain, again)
    ]
    assert products[0] == products[1]
    sessions = [plan.session(step.values) for plan in plans]
    for turn in range(2):
        feeds = step.feeds(turn, turn + 1)
        one, other = ([x.tobytes() for x in session.run(feeds)] for session in sessions)
        assert one == other
    for old, _ in step.states:
        assert sessions[0].read(old).tobytes() == sessions[1].read(old).tobytes()


def test_memory_is_saved_down_to_what_is_asked_for() -> None:
    step = training_step(gpt(64, 3, 16), 4, 16)
    least, some, none = (
        Plan(step.inputs, [step.loss], CPU, states=step.states, remat=remat).bind({}).arena_bytes
        for remat in (0, 700_000, 1 << 40)
    )
    assert least <= some <= none


def _writes_state(plan: Plan, item: object) -> bool:
    first = 2 + len(plan.inputs) + 1
    return any(block.base >= first for block, _ in item.buffers)  # type: ignore[attr-defined]


# ---- threads


def test_threads_run_one_plan_with_different_feeds() -> None:
    rows = symbol("rows")
    x = b.input((rows, 300), float32)
    y = b.exp(b.sub(x, b.expand(b.reduce(x, "max", (1,)), (1,), x.shape)))
    targets = [b.div(y, b.expand(b.sum(y, (1,)), (1,), x.shape)), b.dot(y, b.swap_last(y))]
    plan = Plan([x], targets, CPU)
    sizes = [(40, 0), (40, 1), (7, 2), (128, 3)]
    feeds = [numbers((n, 300), start) for n, start in sizes]
    alone = [[result.tobytes() for result in Plan([x], targets, CPU).run({x: own})] for own in feeds]
    failures: list[object] = []
    ready = threading.Barrier(len(feeds))

    def work(k: int) -> None:
        ready.wait()
        for _ in range(20):
            if not same(plan.run({x: feeds[k]}), alone[k]):
                failures.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(len(feeds))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_a_chain_of_many_waves_runs() -> None:
    x = b.input((8, 8), float32)
    y = x
    for _ in range(3000):
        y = b.dot(b.tanh(y), x)
    plan = Plan([x], [y], CPU)
    assert same(plan.run({x: numbers((8, 8))}), expected([y], {x: numbers((8, 8))}))
    assert plan.bind({}).arena_bytes < 2_000_000
