"""engine.compile: the same bits as eager, state, guards, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from engine import Generator, Tensor, float32, loop, nn, no_grad, optim, where
from engine.devices.cpu import CpuDevice
from engine.devices.device import current_device, use_device
from engine.devices.reference import ReferenceDevice
from engine.errors import BoundsError, DeviceError, GradientError, ShapeError, TracingError
from engine.tracing import compile

pytestmark = pytest.mark.skipif(not isinstance(current_device(), CpuDevice), reason="plans need a C compiler")


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Generator(seed).normal(*shape)


def same(a: Tensor, b: Tensor) -> bool:
    return (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())


def test_a_function_gives_the_bits_of_eager_and_is_traced_once() -> None:
    calls = []

    def function(x: Tensor, y: Tensor) -> Tensor:
        calls.append(1)
        return (x @ y).relu().softmax() * 3.0 + x.sum()

    compiled = compile(function)
    for seed in range(3):
        x, y = normal(4, 5, seed=seed), normal(5, 6, seed=seed + 9)
        assert same(compiled(x, y), function(x, y))
    assert len(calls) == 5  # three in eager, one that two symbols, 4 and 5, did not suit
    assert len(compiled.plans) == 1
    assert same(compiled(normal(9, 5), normal(5, 6)), function(normal(9, 5), normal(5, 6)))
    assert len(compiled.plans) == 1


@dataclass(frozen=True)
class Pair:
    first: Tensor
    second: Tensor


def test_trees_go_in_and_come_out() -> None:
    @compile
    def function(tree: dict[str, Any], *, scale: float) -> dict[str, Any]:
        a, (b, pair) = tree["a"], tree["rest"]
        return {"sum": a + b, "rest": [pair.first * scale, (None, "text", Pair(pair.second, a))]}

    a, b = Tensor([1.0]), Tensor([2.0])
    result = function({"a": a, "rest": [b, Pair(a, b)]}, scale=3.0)
    assert result["sum"].tolist() == [3.0]
    assert result["rest"][0].tolist() == [3.0]
    none, text, pair = result["rest"][1]
    assert (none, text, pair.first.tolist(), pair.second.tolist()) == (None, "text", [2.0], [1.0])
    assert function({"a": a, "rest": [b, Pair(a, b)]}, scale=4.0)["rest"][0].tolist() == [4.0]
    assert len(function.plans) == 2


def test_tensors_from_outside_are_read_anew() -> None:
    outside = Tensor([1.0, 2.0])
    compiled = compile(lambda x: x + outside.detach())
    assert compiled(Tensor([10.0, 10.0])).tolist() == [11.0, 12.0]
    with no_grad():
        outside.assign(Tensor([3.0, 4.0]))
    assert compiled(Tensor([10.0, 10.0])).tolist() == [13.0, 14.0]
    assert len(compiled.plans) == 1


def test_tensors_made_inside_are_constants() -> None:
    compiled = compile(lambda x: x * Tensor([2.0, 3.0]) + Tensor.ones(2))
    for _ in range(2):
        assert compiled(Tensor([1.0, 1.0])).tolist() == [3.0, 4.0]
    assert compile(lambda: Tensor([1.0, 2.0]))().tolist() == [1.0, 2.0]


def test_rebinding_is_seen_outside_each_time() -> None:
    total, count = Tensor([0.0, 0.0]), Tensor(0)

    @compile
    def add(x: Tensor) -> Tensor:
        nonlocal total
        total += x
        count.assign(count + 1)
        x += 1.0
        x[0] = 7.0
        return total * 2.0

    for turn in range(1, 4):
        x = Tensor([1.0, 2.0])
        assert add(x).tolist() == [2.0 * turn, 4.0 * turn]
        assert x.tolist() == [7.0, 3.0]
        assert (total.tolist(), count.item()) == ([1.0 * turn, 2.0 * turn], turn)
    assert len(add.plans) == 1


def test_a_cell_that_is_only_written_gets_its_value() -> None:
    last = Tensor([0.0])

    @compile
    def function(x: Tensor) -> None:
        last.assign(x * 2.0)

    for value in (1.0, 5.0):
        assert function(Tensor([value])) is None
        assert last.tolist() == [2.0 * value]


def test_older_values_stay_as_they_were() -> None:
    x = Tensor([1.0, 2.0, 3.0])

    @compile
    def double() -> None:
        x.assign(x * 2.0)

    double()
    seen = [x.detach(), x[1:], x.reshape(3, 1)]
    double()
    copy = x.detach()
    double()
    double()
    assert [one.tolist() for one in seen] == [[2.0, 4.0, 6.0], [4.0, 6.0], [[2.0], [4.0], [6.0]]]
    assert copy.tolist() == [4.0, 8.0, 12.0]
    assert x.tolist() == [16.0, 32.0, 48.0]


def test_states_can_change_places() -> None:
    a, b = Tensor([1.0]), Tensor([2.0])

    @compile
    def swap() -> None:
        old = a.detach()
        a.assign(b)
        b.assign(old + 10.0)

    swap()
    assert (a.item(), b.item()) == (2.0, 11.0)
    swap()
    assert (a.item(), b.item()) == (11.0, 12.0)


def test_gradients_are_left_and_added_to() -> None:
    def make(wrap: Callable[[Any], Any]) -> tuple[nn.Linear, Any]:
        layer = nn.Linear(3, 2, generator=Generator(1))
        return layer, wrap(lambda x: layer(x).tanh().sum().backward())

    (eager, step), (traced, compiled) = make(lambda f: f), make(compile)
    for seed in range(4):
        step(normal(5, 3, seed=seed))
        compiled(normal(5, 3, seed=seed))
        for one, other in zip(eager.parameters(), traced.parameters(), strict=True):
            assert one.grad is not None
            assert other.grad is not None
            assert same(one.grad, other.grad)
    assert len(compiled.plans) == 2  # without and with gradients before
    traced.zero_grad()
    compiled(normal(5, 3))
    assert len(compiled.plans) == 2


def test_gradients_cleared_first_need_one_plan() -> None:
    layer = nn.Linear(3, 2, generator=Generator(1))

    @compile
    def function(x: Tensor) -> None:
        layer.zero_grad()
        layer(x).sum().backward()

    for seed in range(3):
        function(normal(5, 3, seed=seed))
        assert layer.weight.grad is not None
    assert len(function.plans) == 1


def test_gradients_of_arguments_and_of_gradients() -> None:
    def function(x: Tensor) -> Tensor:
        (x * x * x).sum().backward()
        assert x.grad is not None
        slope, x.grad = x.grad, None
        (slope * slope).sum().backward()
        return slope

    results = []
    for wrap in (lambda f: f, compile):
        x = Tensor([1.0, 2.0, -3.0], requires_grad=True)
        slope = wrap(function)(x)
        assert x.grad is not None
        results.append((slope.tolist(), x.grad.tolist()))
    assert results[0] == results[1]
    assert results[0][0] == [3.0, 12.0, 27.0]


OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], optim.Optimizer]] = {
    "adam": lambda ps: optim.Adam(ps, 0.01, weight_decay=0.1),
    "adamw": lambda ps: optim.AdamW(ps, 0.01, weight_decay=0.1),
    "sgd": lambda ps: optim.SGD(ps, 0.01),
    "nesterov": lambda ps: optim.SGD(ps, 0.01, 0.9, True, 0.1),
    "rmsprop": lambda ps: optim.RMSprop(ps, 0.01),
    "adagrad": lambda ps: optim.Adagrad(ps, 0.01),
    "lion": lambda ps: optim.Lion(ps, 0.01, weight_decay=0.1),
}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_whole_steps_with_clipping_and_dropout(name: str) -> None:
    def make(wrap: Callable[[Any], Any]) -> Any:
        generator = Generator(3)
        model = nn.Sequential(
            nn.Linear(4, 8, generator=generator), nn.Dropout(0.4, generator), nn.GELU(), nn.LayerNorm(8)
        )
        optimizer = OPTIMIZERS[name](model.parameters())

        def step(x: Tensor) -> tuple[Tensor, Tensor]:
            loss = (model(x) * x.sum()).tanh().mean()
            loss.backward()
            norm = optim.clip_grad_norm_(model.parameters(), 0.05)
            optimizer.step()
            optimizer.zero_grad()
            return loss, norm

        return model, optimizer, wrap(step)

    eager, compiled = make(lambda f: f), make(compile)
    for turn in range(5):
        results = []
        for model, optimizer, step in (eager, compiled):
            optimizer.lr = 0.1 / (turn + 1)
            loss, norm = step(normal(6, 4, seed=turn))
            state = [x.tobytes() for x in (*model.parameters(), *optimizer.state_dict().values())]
            results.append((loss.tobytes(), norm.tobytes(), state, optimizer.settings()))
        assert results[0] == results[1]
    assert len(compiled[2].plans) == 1


def test_another_mode_shape_or_setting_is_traced_anew() -> None:
    generator = Generator(0)
    layer = nn.Dropout(0.5, generator)
    compiled = compile(layer)
    x = Tensor.ones(100)
    dropped = compiled(x)
    assert dropped.tolist() != x.tolist()
    layer.eval()
    assert compiled(x).tolist() == x.tolist()
    layer.train()
    generator.seed(0)
    assert same(compiled(x), dropped)
    assert len(compiled.plans) == 2
    compiled(Tensor.ones(7))
    assert len(compiled.plans) == 2
    compiled(Tensor.ones(7, 3))
    assert len(compiled.plans) == 3


def test_draws_go_on_as_in_eager() -> None:
    one, other = Generator(5), Generator(5)
    compiled = compile(lambda: (one.uniform(3), one.normal(2, 2)))
    for _ in range(3):
        uniform, gaussian = compiled()
        assert same(uniform, other.uniform(3))
        assert same(gaussian, other.normal(2, 2))
    assert one.state == other.state


@pytest.mark.parametrize(
    "ask", [lambda x: x.sum().item(), bool, float, lambda x: x.tolist(), repr, lambda x: x.allclose(x)]
)
def test_asking_for_a_value_names_the_line(ask: Callable[[Tensor], object]) -> None:
    kept = Tensor([1.0])

    def function(x: Tensor) -> Tensor:
        kept.assign(x)
        ask(x)
        return x

    with pytest.raises(TracingError, match=rf"{__file__}:\d+"):
        compile(function)(Tensor([1.0]))
    assert kept.tolist() == [1.0]  # as before


def test_a_value_that_escapes_is_refused_where_it_is_used() -> None:
    escaped = []
    compile(lambda x: escaped.append(x + 1.0))(Tensor([1.0]))
    with pytest.raises(TracingError, match="unknown while"):
        escaped[0] + 1.0


def test_errors_in_the_function_leave_everything_as_it_was() -> None:
    layer = nn.Linear(3, 2, generator=Generator(1))
    before = layer.weight.tolist()

    def function(x: Tensor) -> Tensor:
        layer.zero_grad()
        layer(x).sum().backward()
        with no_grad():
            layer.weight.assign(layer.weight * 2.0)
        return x @ x

    with pytest.raises(ShapeError):
        compile(function)(normal(5, 3))
    assert layer.weight.tolist() == before
    assert layer.weight.grad is None


def test_bad_indices_are_refused_at_each_run_and_change_nothing() -> None:
    table, seen = nn.Embedding(4, 2, Generator(0)), Tensor(0)
    optimizer = optim.SGD(table.parameters(), 0.1)

    @compile
    def step(index: Tensor) -> None:
        seen.assign(seen + 1)
        table(index).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step(Tensor([0, 3]))
    before = table.weight.tolist()
    with pytest.raises(BoundsError, match="4"):
        step(Tensor([1, 4]))
    assert (table.weight.tolist(), seen.item(), optimizer.t) == (before, 1, 1)
    step(Tensor([1, 2]))
    assert table.weight.tolist() != before


def test_a_history_from_outside_is_refused() -> None:
    x = Tensor([1.0], requires_grad=True)
    y = x * 2.0
    for function, arguments in ((lambda: y + 1.0, ()), (lambda z: z + 1.0, (y,))):
        with pytest.raises(GradientError, match="detach"):
            compile(function)(*arguments)


def test_without_a_compiler_the_function_runs_as_it_is() -> None:
    compiled = compile(lambda x: x.sum().item())
    with use_device(ReferenceDevice()):
        assert compiled(Tensor([1.0, 2.0])) == 3.0
    assert compiled.plans == []


def test_exact_numbers_decline_devices_with_other_bits() -> None:
    compiled = compile(lambda x: x.exp(), numerics="exact")
    assert same(compiled(Tensor([1.0, 2.0])), Tensor([1.0, 2.0]).exp())
    assert compile(compiled)(Tensor([0.0])).tolist() == [1.0]
    with use_device(ReferenceDevice()), pytest.raises(DeviceError, match="'exact', and the reference device"):
        compiled(Tensor([1.0, 2.0]))
    with pytest.raises(ValueError, match="numerics is 'fast'; it must be 'any' or 'exact'"):
        compile(lambda x: x, numerics="fast")(Tensor([1.0]))  # type: ignore[arg-type]


def test_compiled_functions_call_each_other() -> None:
    inner = compile(lambda x: x * 2.0)
    outer = compile(lambda x: inner(x) + inner(x + 1.0))
    assert outer(Tensor([3.0])).tolist() == [14.0]
    assert (len(inner.plans), len(outer.plans)) == (0, 1)


def test_empty_and_single_sizes() -> None:
    compiled = compile(lambda x: (x * 2.0, x.sum(0), where(x > 0.0, x, 0.0)))
    for shape in ((0, 3), (1, 3), (5, 1), (1, 1), (0,), (1,), (2,)):
        x = normal(*shape)
        for one, other in zip(compiled(x), (x * 2.0, x.sum(0), where(x > 0.0, x, 0.0)), strict=True):
            assert same(one, other)


def mixed(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """What networks do along a leading axis."""
    joined = (x.reshape(x.shape[0] * 3, 2) @ y.T).reshape(x.shape[0], -1, y.shape[0])
    return (
        joined.softmax().mean(0),
        joined.mean(),
        x.var(),
        x.layernorm().flatten().cumsum(),
        (x + Tensor.ones(x.shape)).permute(1, 0, 2).sum(-1),
        x[:, 1],
    )


def test_one_plan_serves_every_leading_size() -> None:
    compiled = compile(mixed)
    for rows in (5, 2, 33, 8, 257):
        x, y = normal(rows, 3, 2, seed=rows), normal(4, 2)
        for one, other in zip(compiled(x, y), mixed(x, y), strict=True):
            assert same(one, other), rows
    assert len(compiled.plans) == 1
    x, y = normal(4, 3, 2), normal(4, 2)  # two sizes that were not equal before
    for one, other in zip(compiled(x, y), mixed(x, y), strict=True):
        assert same(one, other)
    assert len(compiled.plans) == 2


def test_sizes_that_python_needs_are_traced_as_numbers() -> None:
    compiled = compile(lambda x: x * (1.0 / x.shape[0]))
    for rows in (4, 8, 4):
        assert same(compiled(Tensor.ones(rows)), Tensor.ones(rows) * (1.0 / rows))
    assert len(compiled.plans) == 2


def test_gradients_at_every_leading_size() -> None:
    layer = nn.Linear(3, 5, generator=Generator(1))
    loss_of = nn.CrossEntropyLoss()

    def function(x: Tensor, targets: Tensor) -> Tensor:
        layer.zero_grad()
        loss = loss_of(layer(x).gelu(), targets)
        loss.backward()
        return loss

    compiled = compile(function)
    for rows in (4, 7, 64, 3):
        x, targets = normal(rows, 3, seed=rows), Tensor([i % 5 for i in range(rows)])
        results = []
        for run in (compiled, function):
            loss = run(x, targets)
            results.append([loss.tobytes(), *[p.grad.tobytes() for p in layer.parameters()]])  # type: ignore[union-attr]
        assert results[0] == results[1]
    assert len(compiled.plans) == 1


def test_threads_share_a_compiled_function() -> None:
    compiled = compile(lambda x: (x * 2.0).sum(1))
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = normal(20, 3, seed=seed)
        expected = (x * 2.0).sum(1)
        wrong.extend(1 for _ in range(20) if not same(compiled(x), expected))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(compiled.plans) == 1


def test_functions_over_one_module_are_traced_by_several_threads() -> None:
    layer = nn.Linear(6, 6, generator=Generator(0))
    x = normal(4, 6)
    expected = layer(layer(x)).tanh().tobytes()
    results: list[bytes] = []

    def work() -> None:
        compiled = compile(lambda x: layer(layer(x)).tanh())
        results.extend(compiled(x).tobytes() for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 20


def test_float32_numbers_of_the_host_follow_the_optimiser() -> None:
    parameter = nn.Parameter(Tensor([1.0], float32))
    optimizer = optim.SGD([parameter], lr=1.0)

    @compile
    def step() -> None:
        parameter.sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    for lr in (0.5, 0.25, 0.125):
        optimizer.lr = lr
        step()
    assert (parameter.item(), optimizer.t, len(step.plans)) == (0.125, 3, 1)


def test_values_that_are_computed_again_change_no_bit_and_need_less_memory() -> None:
    w = Generator(2).uniform(16, 16)

    def deep(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        y = x
        for _ in range(6):
            y = (y * 1.01).tanh().exp() @ w
        y.sum().backward()
        assert x.grad is not None
        return x.grad

    x = Generator(1).uniform(64, 16)
    kept, again = compile(deep), compile(deep, remat=0)
    assert kept(x).tolist() == again(x).tolist() == deep(x).tolist()
    sizes = [run.plans[0].bind({"n0": 64}).arena_bytes for run in (kept, again)]
    assert sizes[1] < sizes[0]


def test_sizes_may_be_compared_with_numbers() -> None:
    @compile
    def scaled(x: Tensor) -> Tensor:
        return x * 2.0 if x.shape[0] == 8 else x * 3.0 if x.shape == (5, 2) else x

    for rows, factor in ((8, 2.0), (5, 3.0), (7, 1.0), (8, 2.0), (9, 1.0), (70, 1.0)):
        x = Tensor.ones(rows, 2)
        assert scaled(x).tolist() == [[factor] * 2] * rows
    assert [plan.symbols for plan in scaled.plans] == [["n0"]] * 3


def test_one_plan_serves_all_sizes_that_compare_alike() -> None:
    ran: list[tuple[Any, ...]] = []

    def function(x: Tensor, y: Tensor) -> Tensor:
        ran.append((x.shape[0], y.shape[0]))
        if x.shape[0] > y.shape[0]:
            return x.sum(0) + y if 2 * y.shape[0] >= x.shape[0] else x * 2.0
        if not x.shape[0] - 3:
            return x * 0.5
        return y.mean(0) if max(x.shape[0], 4) < y.shape[0] else y

    compiled = compile(function)
    for sizes in ((9, 5), (7, 6), (20, 5), (11, 2), (3, 8), (2, 9), (4, 9), (5, 9), (6, 30), (2, 3), (3, 5)):
        x, y = (normal(size, 2, seed=size) for size in sizes)
        assert same(compiled(x, y), function(x, y)), sizes
    traced = [sizes for sizes in ran if not isinstance(sizes[0], int)]
    assert len(compiled.plans) == len(traced) == 6
    assert all(plan.symbols for plan in compiled.plans)


def test_gradients_and_states_follow_the_sizes_that_compare_alike() -> None:
    w = Tensor([0.5, -2.0], requires_grad=True)

    @compile
    def step(x: Tensor) -> Tensor:
        loss = ((x * w).sum() if x.shape[0] <= 4 else (x * w).mean()) ** 2
        w.grad = None
        loss.backward()
        return loss

    for rows in (2, 3, 7, 4, 9):
        x = normal(rows, 2, seed=rows)
        loss = step(x)
        got, v = w.grad, Tensor(w, requires_grad=True)
        wanted = ((x * v).sum() if rows <= 4 else (x * v).mean()) ** 2
        wanted.backward()
        assert got is not None and v.grad is not None
        assert same(loss, wanted) and same(got, v.grad)
    assert len(step.plans) == 2


def test_comparisons_within_a_loop_are_guards_too() -> None:
    @compile
    def path(x: Tensor) -> Tensor:
        return loop(3, lambda turn, c: c * 2.0 if x.shape[0] < 5 else c + x, x).carries

    for rows in (3, 4, 5, 6):
        x = normal(rows)
        assert same(path(x), x * 8.0 if rows < 5 else x + x + x + x)
    assert len(path.plans) == 2
