"""Optimisers against their formulas in float64 and against torch; clipping, schedules, exact state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine import Tensor, nn, optim
from engine.optim.schedule import constant, cosine, linear, step_decay, warm_up

Array = np.ndarray[Any, Any]
STEPS = 5


def gradients(seed: int = 0, shape: tuple[int, ...] = (3, 4)) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(STEPS)]


def run(make: Callable[[list[nn.Parameter]], optim.Optimizer], start: Array) -> Array:
    parameter = nn.Parameter(start)
    optimizer = make([parameter])
    for gradient in gradients():
        parameter.grad = Tensor(gradient)
        optimizer.step()
    return np.asarray(parameter)


def adam_formula(p: Array, lr: float, decay: float, coupled: bool) -> Array:
    m = v = np.zeros_like(p)
    for t, gradient in enumerate(gradients(), 1):
        g = gradient + decay * p if coupled else gradient
        p = p if coupled else p * (1 - lr * decay)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return p


def sgd_formula(p: Array, lr: float, momentum: float, nesterov: bool) -> Array:
    b = np.zeros_like(p)
    for g in gradients():
        b = momentum * b + g
        p = p - lr * (g + momentum * b if nesterov else b)
    return p


def root_formula(p: Array, lr: float, alpha: float | None) -> Array:
    v = np.zeros_like(p)
    for g in gradients():
        v = v + g * g if alpha is None else alpha * v + (1 - alpha) * g * g
        p = p - lr * g / (np.sqrt(v) + (1e-10 if alpha is None else 1e-8))
    return p


def lion_formula(p: Array, lr: float, decay: float) -> Array:
    m = np.zeros_like(p)
    for g in gradients():
        p = p - lr * (np.sign(0.9 * m + 0.1 * g) + decay * p)
        m = 0.99 * m + 0.01 * g
    return p


FORMULAS: dict[str, tuple[Callable[[list[nn.Parameter]], optim.Optimizer], Callable[[Array], Array]]] = {
    "adam": (lambda ps: optim.Adam(ps, 0.1), lambda p: adam_formula(p, 0.1, 0.0, True)),
    "adam with decay": (
        lambda ps: optim.Adam(ps, 0.1, weight_decay=0.2),
        lambda p: adam_formula(p, 0.1, 0.2, True),
    ),
    "adamw": (lambda ps: optim.AdamW(ps, 0.1, weight_decay=0.2), lambda p: adam_formula(p, 0.1, 0.2, False)),
    "sgd": (lambda ps: optim.SGD(ps, 0.1), lambda p: sgd_formula(p, 0.1, 0.0, False)),
    "momentum": (lambda ps: optim.SGD(ps, 0.1, 0.9), lambda p: sgd_formula(p, 0.1, 0.9, False)),
    "nesterov": (lambda ps: optim.SGD(ps, 0.1, 0.9, True), lambda p: sgd_formula(p, 0.1, 0.9, True)),
    "rmsprop": (lambda ps: optim.RMSprop(ps, 0.1), lambda p: root_formula(p, 0.1, 0.99)),
    "adagrad": (lambda ps: optim.Adagrad(ps, 0.1), lambda p: root_formula(p, 0.1, None)),
    "lion": (lambda ps: optim.Lion(ps, 0.1, weight_decay=0.2), lambda p: lion_formula(p, 0.1, 0.2)),
}


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_each_optimiser_follows_its_formula(name: str) -> None:
    make, formula = FORMULAS[name]
    start = np.random.default_rng(9).standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(make, start), formula(start.astype(np.float64)), rtol=2e-5, atol=2e-6)


def test_adamw_spares_vectors_unless_told_otherwise() -> None:
    vector = nn.Parameter([1.0])
    for decays, expected in ((None, 1.0), (lambda parameter: True, 0.5)):
        options = {} if decays is None else {"decays": decays}
        optimizer = optim.AdamW([vector], lr=0.5, weight_decay=1.0, **options)
        vector.grad = Tensor([0.0])
        optimizer.step()
        assert vector.item() == expected


TORCH = {
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "Adam": {"weight_decay": 0.01},
    "AdamW": {"weight_decay": 0.1},
    "RMSprop": {},
    "Adagrad": {},
}


@pytest.mark.parametrize("name", sorted(TORCH))
def test_against_torch(name: str) -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is the oracle")
    start = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
    theirs = torch.nn.Parameter(torch.tensor(start))
    optimizer = getattr(torch.optim, name)([theirs], lr=0.05, **TORCH[name])
    for gradient in gradients():
        theirs.grad = torch.tensor(gradient)
        optimizer.step()
    ours = run(lambda ps: getattr(optim, name)(ps, lr=0.05, **TORCH[name]), start)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_adam_stays_right_from_tiny_to_huge_gradients() -> None:
    for scale in (1e-6, 1.0, 1e10, 1e25):
        parameter = nn.Parameter([1.0])
        optimizer = optim.Adam([parameter], lr=0.1)
        for _ in range(3):
            parameter.grad = Tensor([scale])
            optimizer.step()
        assert parameter.item() == pytest.approx(0.7, abs=0.004)


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_saved_state_continues_with_the_same_bits(name: str) -> None:
    make, _ = FORMULAS[name]
    parameter = nn.Parameter(gradients(4)[0])
    optimizer = make([parameter])
    for gradient in gradients()[:2]:
        parameter.grad = Tensor(gradient)
        optimizer.step()
    twin = nn.Parameter(parameter.detach())
    other = make([twin])
    other.load_state_dict(optimizer.state_dict(), optimizer.settings())
    for gradient in gradients()[2:]:
        for p, o in ((parameter, optimizer), (twin, other)):
            p.grad = Tensor(gradient)
            o.step()
    assert parameter.tobytes() == twin.tobytes()


def test_foreign_state_is_refused() -> None:
    optimizer = optim.Adam([nn.Parameter([1.0])])
    for state, message in (
        ({"z.0": Tensor([1.0])}, "not a running value of Adam"),
        ({"m.1": Tensor([1.0])}, "not a running value"),
        ({"m.0": Tensor([1.0, 2.0])}, "has shape"),
    ):
        with pytest.raises(ValueError, match=message):
            optimizer.load_state_dict(state, {"t": 1, "lr": 0.1})


def test_parameters_without_a_gradient_stay() -> None:
    used, unused = nn.Parameter([1.0]), nn.Parameter([2.0])
    optimizer = optim.SGD([used, unused], lr=1.0)
    used.grad = Tensor([0.5])
    optimizer.step()
    assert (used.tolist(), unused.tolist()) == ([0.5], [2.0])
    optimizer.zero_grad()
    assert used.grad is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.SGD([], 0.1),
        lambda: optim.SGD([nn.Parameter([1.0])], -1.0),
        lambda: optim.SGD([nn.Parameter([1.0])], math.nan),
        lambda: optim.SGD([nn.Parameter([1.0])], nesterov=True),
        lambda: optim.Adam([nn.Parameter([1.0])], betas=(1.0, 0.9)),
        lambda: optim.clip_grad_norm_([], 0.0),
        lambda: cosine(0),
    ],
)
def test_bad_settings_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


def test_clipping_by_norm_keeps_the_direction() -> None:
    a, b = nn.Parameter([0.0, 0.0]), nn.Parameter([[0.0]])
    a.grad, b.grad = Tensor([3.0, 0.0]), Tensor([[4.0]])
    assert optim.clip_grad_norm_([a, b], 1.0).item() == 5.0
    np.testing.assert_allclose(a.grad.tolist() + b.grad.tolist()[0], [0.6, 0.0, 0.8], rtol=1e-6)
    assert optim.clip_grad_norm_([a, b], 10.0).item() == pytest.approx(1.0)
    a.grad = Tensor([math.inf, 1.0])
    assert optim.clip_grad_norm_([a, b], 1.0).item() == math.inf
    assert a.grad.tolist() == [math.inf, 1.0]


def test_clipping_by_value() -> None:
    a = nn.Parameter([0.0, 0.0, 0.0])
    a.grad = Tensor([-5.0, 0.5, 5.0])
    optim.clip_grad_value_([a], 1.0)
    assert a.grad.tolist() == [-1.0, 0.5, 1.0]


def test_schedules_at_their_corners() -> None:
    assert [constant()(s) for s in (0, 99)] == [1.0, 1.0]
    assert [round(cosine(10)(s), 12) for s in (0, 5, 10, 50)] == [1.0, 0.55, 0.1, 0.1]
    assert [linear(4)(s) for s in (0, 1, 4, 9)] == [1.0, 0.75, 0.0, 0.0]
    assert [step_decay(3, 0.5)(s) for s in (0, 2, 3, 6)] == [1.0, 1.0, 0.5, 0.25]
    assert [warm_up(4, linear(4))(s) for s in (0, 3, 4, 6, 8)] == [0.25, 1.0, 1.0, 0.5, 0.0]
    assert warm_up(0, constant())(0) == 1.0
