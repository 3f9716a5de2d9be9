"""Gradients of compositions, of any order, against difference quotients and known values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine import Tensor, float64, grad_check, where
from engine.errors import GradientError, ShapeError
from engine.tensor.functional import masked_softmax

COMPOSITIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(),
    "softmax of columns": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(),
    "logsumexp": lambda x: x.logsumexp(),
    "masked softmax": masked_softmax,
    "layernorm": lambda x: x.layernorm(),
    "rmsnorm": lambda x: x.rmsnorm(),
    "sigmoid": lambda x: x.sigmoid(),
    "softplus": lambda x: x.softplus(),
    "logsigmoid": lambda x: x.logsigmoid(),
    "silu": lambda x: x.silu(),
    "gelu": lambda x: x.gelu(),
    "gelu_exact": lambda x: x.gelu_exact(),
    "tanh of matmul": lambda x: (x @ x.T).tanh(),
    "var": lambda x: x.var(1),
    "prod": lambda x: x.prod(1),
    "cumsum": lambda x: x.cumsum(0) * x,
    "max": lambda x: x.max(1) * x.min(1),
    "clamp": lambda x: x.clamp(-0.3, 0.4) * x,
    "power": lambda x: (x * x + 1.0) ** 1.5,
    "relu": lambda x: x.relu() * x,
    "mean and std": lambda x: (x - x.mean()) / (x.std() + 0.1),
}


@pytest.mark.parametrize("name", sorted(COMPOSITIONS))
def test_first_and_second_order(name: str) -> None:
    x = Tensor(np.random.default_rng(1).standard_normal((3, 5)))
    assert grad_check(COMPOSITIONS[name], [x], order=2)


@pytest.mark.parametrize("shape", [(1, 1), (0, 3), (3, 0)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "gelu", "sigmoid", "tanh of matmul"])
def test_empty_and_single_shapes(name: str, shape: tuple[int, int]) -> None:
    x = Tensor(np.full(shape, 0.5), requires_grad=True)
    COMPOSITIONS[name](x).sum().backward()
    assert x.grad is not None
    assert x.grad.shape == shape


def test_grad_check_finds_a_wrong_gradient() -> None:
    with pytest.raises(GradientError, match="input 0, element"):
        grad_check(lambda x: x * x.detach(), [Tensor([1.5, -2.0])])


@pytest.mark.parametrize(
    ("function", "at", "expected"),
    [
        (lambda x: where(x <= 0, x.exp(), x + 1.0), 800.0, 1.0),
        (lambda x: where(x > 0, x.sqrt(), x), -4.0, 1.0),
        (lambda x: where(x > 0, x.log(), x), 0.0, 1.0),
        (lambda x: x.relu(), 0.0, 0.0),
        (lambda x: x.abs(), 0.0, 0.0),
        (lambda x: x.clamp(0.0, 1.0), 1.0, 1.0),
        (lambda x: x**2, 0.0, 0.0),
        (lambda x: x.logsigmoid(), -1000.0, 1.0),
    ],
)
def test_the_side_not_taken_leaks_nothing(
    function: Callable[[Tensor], Tensor], at: float, expected: float
) -> None:
    x = Tensor(at, float64, requires_grad=True)
    function(x).backward()
    assert x.grad is not None
    assert x.grad.item() == expected


def test_ties_share() -> None:
    x = Tensor([1.0, 3.0, 3.0], requires_grad=True)
    x.max().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.5, 0.5]
    a, b = Tensor([1.0, 2.0], requires_grad=True), Tensor([1.0, 3.0], requires_grad=True)
    a.maximum(b).sum().backward()
    assert a.grad is not None and b.grad is not None
    assert (a.grad.tolist(), b.grad.tolist()) == ([0.5, 0.0], [0.5, 1.0])


def test_broadcast_gradients_keep_their_own_shapes() -> None:
    a = Tensor([[0.0], [1.0], [2.0]], requires_grad=True)
    b = Tensor([[0.0, 1.0, 2.0, 3.0]], requires_grad=True)
    s = Tensor(2.0, requires_grad=True)
    (a * b * s).sum().backward()
    assert a.grad is not None and b.grad is not None and s.grad is not None
    assert a.grad.tolist() == [[12.0], [12.0], [12.0]]
    assert b.grad.tolist() == [[6.0, 6.0, 6.0, 6.0]]
    assert s.grad.shape == ()
    assert s.grad.item() == 18.0


def test_mean_over_several_axes() -> None:
    x = Tensor(np.zeros((2, 3, 4)), requires_grad=True)
    x.mean((0, 2)).sum().backward()
    assert np.array_equal(np.asarray(x.grad), np.full((2, 3, 4), 0.125))


def test_a_shared_trunk_is_counted_once_per_loss() -> None:
    x = Tensor([2.0], requires_grad=True)
    trunk = x * x
    (trunk * 1.0).sum().backward()
    (trunk * 3.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [16.0]


def test_third_order() -> None:
    x = Tensor(2.0, float64, requires_grad=True)
    result = x**5
    for expected in (80.0, 160.0, 240.0):
        x.grad = None
        result.backward()
        assert x.grad is not None
        result = x.grad
        assert result.item() == expected


def test_backward_with_a_cotangent_of_its_own() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x * x).backward(Tensor([1.0, 10.0]))
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 40.0]
    with pytest.raises(ShapeError, match="must have that of x"):
        (x * x).backward(Tensor([1.0]))


def test_against_torch() -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is the oracle")
    rng = np.random.default_rng(2)
    x, w, g, b = (rng.standard_normal(shape) for shape in ((4, 6), (5, 6), (5,), (5,)))
    ours = [Tensor(a, requires_grad=True) for a in (x, w, g, b)]
    theirs = [torch.tensor(a, requires_grad=True) for a in (x, w, g, b)]

    hidden = (ours[0] @ ours[1].T).layernorm(ours[2], ours[3]).gelu()
    (hidden.softmax() * hidden.tanh()).sum().backward()
    other = torch.nn.functional.layer_norm(theirs[0] @ theirs[1].T, (5,), theirs[2], theirs[3])
    other = torch.nn.functional.gelu(other, approximate="tanh")
    (other.softmax(-1) * other.tanh()).sum().backward()
    for mine, his in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(mine.grad), his.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_the_standard_deviation_of_equal_elements_has_gradient_0() -> None:
    x = Tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]], requires_grad=True)
    x.std(1).sum().backward()
    deviations = std_gradient([1.0, 2.0, 4.0])
    assert x.grad is not None
    np.testing.assert_allclose(np.asarray(x.grad), [[0.0] * 3, deviations], rtol=1e-6)


def std_gradient(row: list[float]) -> list[float]:
    mean = sum(row) / len(row)
    std = (sum((x - mean) ** 2 for x in row) / len(row)) ** 0.5
    return [(x - mean) / (len(row) * std) for x in row]


def test_threads_that_share_a_leaf_lose_no_gradient() -> None:
    x = Tensor([0.0], requires_grad=True)
    losses = [[(x * float(k)).sum() for k in range(40)] for _ in range(4)]

    def run(own: list[Tensor]) -> None:
        for loss in own:
            loss.backward()

    threads = [threading.Thread(target=run, args=(own,)) for own in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0 * sum(range(40))]
