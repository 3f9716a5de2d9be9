"""Small programs in the style of a first tutorial."""

from __future__ import annotations

import pytest

from engine import Tensor, manual_seed, nn, no_grad, optim


def test_a_gradient_in_four_lines() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = (x @ x).sum()
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[7.0, 11.0], [9.0, 13.0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda ps: optim.SGD(ps, lr=0.5, momentum=0.9),
        lambda ps: optim.Adam(ps, lr=0.05),
        lambda ps: optim.Lion(ps, lr=0.02),
    ],
)
def test_a_network_learns_exclusive_or(make) -> None:  # type: ignore[no-untyped-def]
    manual_seed(3)
    inputs = Tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    targets = Tensor([[0.0], [1.0], [1.0], [0.0]])
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())
    optimizer, loss_of = make(model.parameters()), nn.BCELoss()
    for _ in range(200):
        loss = loss_of(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with no_grad():
        assert (model(inputs) > 0.5).astype(targets.dtype).tolist() == targets.tolist()
    assert loss.item() < 0.1


def test_gradient_descent_by_hand() -> None:
    x = Tensor([10.0, -3.0], requires_grad=True)
    for _ in range(60):
        ((x - 2.0) ** 2).sum().backward()
        with no_grad():
            assert x.grad is not None
            x -= x.grad * 0.1
        x.zero_grad()
    assert x.allclose([2.0, 2.0], atol=1e-3)
