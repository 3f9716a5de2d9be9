"""Losses: values, extremes, gradients, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engine import Tensor, bfloat16, float64, grad_check, nn

INF = math.inf


def cross_entropy_by_numpy(
    logits: np.ndarray[Any, Any],
    targets: np.ndarray[Any, Any],
    ignore: int | None,
    smoothing: float,
    weight: np.ndarray[Any, Any] | None,
) -> float:
    total = count = 0.0
    for row, target in zip(logits, targets, strict=True):
        if target == ignore:
            continue
        logprobs = row - row.max() - np.log(np.exp(row - row.max()).sum())
        factor = 1.0 if weight is None else weight[target]
        loss = -(1 - smoothing) * logprobs[target] - smoothing * logprobs.mean()
        total += factor * loss
        count += factor
    return total / count


@pytest.mark.parametrize("ignore", [None, 2, -100])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_and_its_options(ignore: int | None, smoothing: float, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((7, 4)) * 3
    targets = rng.integers(0, 4, 7)
    if ignore == -100:
        targets[1] = -100
    weight = np.array([1.0, 2.0, 0.5, 3.0]) if weighted else None
    loss = nn.CrossEntropyLoss(ignore, smoothing, None if weight is None else Tensor(weight))
    expected = cross_entropy_by_numpy(logits, targets, ignore, smoothing, weight)
    assert loss(Tensor(logits), targets).item() == pytest.approx(expected, rel=1e-12)
    assert grad_check(lambda x: loss(x, targets), [Tensor(logits)], order=2)


def test_cross_entropy_is_exact_at_the_extremes() -> None:
    loss = nn.CrossEntropyLoss()
    assert loss(Tensor([[0.0, 1000.0]]), [0]).item() == 1000.0
    assert loss(Tensor([[0.0, 1000.0]]), [1]).item() == 0.0
    assert loss(Tensor([[0.0, -INF]]), [1]).item() == INF
    x = Tensor([[0.0, 1000.0]], requires_grad=True)
    loss(x, [0]).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[-1.0, 1.0]]


def test_cross_entropy_takes_any_leading_shape() -> None:
    logits = Tensor(np.random.default_rng(0).standard_normal((2, 3, 5)))
    flat = nn.CrossEntropyLoss()(logits.reshape(6, 5), [0, 1, 2, 3, 4, 0])
    assert nn.CrossEntropyLoss()(logits, [[0, 1, 2], [3, 4, 0]]).item() == flat.item()
    assert nn.CrossEntropyLoss()(logits.astype(bfloat16), [0, 1, 2, 3, 4, 0]).dtype is bfloat16


@pytest.mark.parametrize(
    ("targets", "error", "message"),
    [
        ([0, 5], IndexError, "target 5 at position 1 is not a class; classes go from 0 to 2"),
        ([-1, 0], IndexError, "target -1 at position 0"),
        ([0], ValueError, "1 targets for logits of shape"),
        ([0.0, 1.0], TypeError, "must be integers"),
    ],
)
def test_bad_targets_are_named(targets: list[Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        nn.CrossEntropyLoss()(Tensor.zeros(2, 3), targets)


def test_binary_cross_entropy_at_certainty() -> None:
    loss = nn.BCELoss()
    assert loss(Tensor([0.0, 1.0]), [0.0, 1.0]).item() == 0.0
    assert loss(Tensor([0.0]), [1.0]).item() == INF
    p = Tensor([0.0, 1.0], float64, requires_grad=True)
    loss(p, [0.0, 1.0]).backward()
    assert p.grad is not None
    assert p.grad.tolist() == [0.5, -0.5]
    assert grad_check(lambda x: loss(x, [0.0, 1.0, 0.3]), [Tensor([0.2, 0.9, 0.5])], order=2)


def test_mean_squared_error() -> None:
    assert nn.MSELoss()(Tensor([1.0, 3.0]), [0.0, 1.0]).item() == 2.5
    with pytest.raises(ValueError, match=r"\(2,\) and targets \(1,\)"):
        nn.MSELoss()(Tensor([1.0, 3.0]), [0.0])
