"""Situations that a similar engine got wrong, or right, written in our API with the value they must have."""

# ruff: noqa: PLW0108  inlined, the operand would be made on import

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import Tensor, float64, grad_check, int32, nn, optim, stack


def wanting(data: Any) -> Tensor:
    """A leaf that requires a gradient."""
    return Tensor(data, requires_grad=True)


CASES: dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    CASES[function.__name__] = function
    return function


SQUARE = [[1.0, 2.0], [3.0, 4.0]]
A, B, C = SQUARE, [[1.0, -5.0], [1.0, 1.0]], SQUARE
CASES |= {
    "index_neg_2d": lambda: Tensor(SQUARE)[0, -1].item(),
    "row_neg": lambda: Tensor(SQUARE)[-1].tolist(),
    "row_oob": lambda: Tensor(SQUARE)[5].tolist(),
    "ragged_short": lambda: Tensor([[1.0, 2.0], [3.0]]).tolist(),
    "reshape_infer": lambda: list(Tensor([1.0, 2.0, 3.0, 4.0]).reshape(2, -1).shape),
    "select_batch_neg": lambda: Tensor([[[1.0]], [[2.0]]]).select_batch(-1).tolist(),
    "select_batch_oob": lambda: Tensor.zeros(2, 1, 1).select_batch(5).tolist(),
    "zeros_int": lambda: Tensor.zeros(2, dtype=int32).tolist(),
    "relu_int": lambda: Tensor([1, -1], dtype=int32).relu().tolist(),
    "softmax_1d": lambda: Tensor([0.0, 0.0]).softmax().tolist(),
    "nan_relu": lambda: math.isnan(Tensor([math.nan]).relu().tolist()[0]),
    "div_zero": lambda: (Tensor([1.0]) / 0.0).tolist(),
    "log_zero": lambda: Tensor([0.0]).log().tolist(),
    "exp_big": lambda: Tensor([1000.0]).exp().tolist(),
    "mean_empty": lambda: math.isnan(Tensor([]).mean().tolist()),
    "promote_matmul": lambda: str((Tensor([[1.0]]) @ Tensor([[1.0]], dtype=float64)).dtype),
    "mask_below_fill": lambda: Tensor([[-2e30, 0.0], [0.0, 0.0]]).causal_mask().softmax().tolist()[0],
    "ce_target_neg": lambda: nn.CrossEntropyLoss()(wanting([[0.0, 5.0], [0.0, 1.0]]), [1, -1]).tolist(),
    "ce_target_len": lambda: nn.CrossEntropyLoss()(wanting([[0.0, 1.0]]), [0, 1, 1]).tolist(),
    "ce_requires_grad": lambda: nn.CrossEntropyLoss()(Tensor([[0.0, 5.0]]), [1]).requires_grad,
    "gpt_readme": lambda: list(nn.GPT(65, 128, 4, 256, 1, 32)([[1, 2, 3, 4]]).shape),
    "embedding_ragged": lambda: nn.Embedding(5, 2)([[0], [2, 3]]).shape,
    "ok_rsub": lambda: (1.0 - Tensor([3.0])).tolist(),
    "ok_rtruediv": lambda: (1.0 / Tensor([4.0])).tolist(),
    "ok_bcast_error": lambda: Tensor([1.0, 2.0]) + Tensor([1.0, 2.0, 3.0]),
    "ok_int_div": lambda: (Tensor([1], dtype=int32) / Tensor([2], dtype=int32)).tolist(),
    "ok_index_oob": lambda: Tensor([1.0, 2.0])[2],
    "ok_gpt_params": lambda: sum(p.numel() for p in nn.GPT(65, 128, 4, 256, 4, 32).parameters()),
    "grad_check_unused": lambda: grad_check(lambda a, b: a.sum(), [wanting([1.0]), wanting([1.0])]),
    "c_constant": lambda: (Tensor(A) + 1.0).flatten().tolist(),
    "c_radd": lambda: (1.0 + Tensor(A)).flatten().tolist(),
    "c_matmul_shape": lambda: Tensor.ones(2, 2).matmul(Tensor.ones(3, 2)),
    "c_nan_relu": lambda: math.isnan(Tensor([math.nan]).relu().tolist()[0]),
}


@case
def setitem_oob() -> Any:
    t = Tensor(SQUARE)
    t[0, 2] = 9.0
    return t.tolist()


@case
def reshape_grad() -> Any:
    x = wanting(SQUARE)
    (x.reshape(4) * 2.0).sum().backward()
    return x.grad.tolist()


@case
def backward_twice() -> Any:
    x = wanting([3.0])
    y = (x * x).sum()
    y.backward()
    y.backward()
    return x.grad.tolist()


@case
def second_order_mul() -> Any:
    x = wanting([2.0])
    (x * x * x).sum().backward()
    gradient = x.grad
    x.grad = None
    gradient.sum().backward()
    return x.grad.tolist()


@case
def grad_alias() -> Any:
    x, y = wanting([1.0]), wanting([1.0])
    (x + y).sum().backward()
    x.grad[0] = 99.0
    return y.grad.tolist()


@case
def embedding_frozen() -> Any:
    embedding = nn.Embedding(3, 1)
    embedding.weight.requires_grad = False
    embedding([[0]]).sum().backward()
    return embedding.weight.grad


@case
def embedding_f64_grad() -> Any:
    embedding = nn.Embedding(2, 1)
    embedding.weight = nn.Parameter(Tensor([[1.0], [2.0]], dtype=float64))
    embedding([[0]]).sum().backward()
    return str(embedding.weight.grad.dtype)


@case
def inplace_before_backward() -> Any:
    x = wanting([2.0])
    y = x * x
    x[0] = 10.0
    y.sum().backward()
    return x.grad.tolist()


@case
def sqrt0_grad() -> Any:
    x = wanting([0.0])
    x.sqrt().sum().backward()
    return x.grad.tolist()


@case
def bce_dead_grad() -> Any:
    p = wanting([0.0])
    nn.BCELoss()(p, Tensor([1.0])).backward()
    return p.grad.tolist()[0] < -1e6


@case
def params_in_list() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(2, 2), nn.Linear(2, 2)]

    return len(Model().parameters())


@case
def del_param() -> Any:
    linear = nn.Linear(2, 2)
    linear.bias = None
    return len(linear.parameters())


@case
def adam_big_grad() -> Any:
    p = nn.Parameter([1.0])
    optimizer = optim.Adam([p], lr=0.1)
    p.grad = Tensor([1e25])
    optimizer.step()
    return round(p.tolist()[0], 3)


@case
def pickle_after_backward() -> Any:
    model = nn.GPT(11, 8, 2, 16, 1, 4)
    nn.CrossEntropyLoss()(model([[1, 2, 3, 4]]), [1, 2, 3, 4]).backward()
    raw = pickle.dumps(model)
    again = pickle.loads(raw)
    assert again([[1, 2, 3, 4]]).tolist() == model([[1, 2, 3, 4]]).tolist()
    return len(raw) > 0


@case
def c_deep() -> Any:
    n = Tensor(A)
    for _ in range(1200):
        n = n * Tensor(B)
    return n.numel()


@case
def ok_matmul_nonsquare() -> Any:
    left = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    right = Tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    return (left @ right).tolist()


@case
def ok_bcast_grad() -> Any:
    x, y = wanting([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), wanting([10.0, 20.0, 30.0])
    (x * y).sum().backward()
    return y.grad.tolist()


@case
def ok_accumulate() -> Any:
    x = wanting([3.0])
    (x * x).sum().backward()
    (x * x).sum().backward()
    return x.grad.tolist()


@case
def ok_adam() -> Any:
    p = nn.Parameter([1.0])
    optimizer = optim.Adam([p], lr=0.1)
    for _ in range(3):
        p.grad = Tensor([0.5])
        optimizer.step()
    return stack([p]).tolist()[0]


def agrees(value: Any, expected: Any) -> bool:
    """Equal structure; numbers equal up to float32 rounding, and special ones by name."""
    if isinstance(expected, list):
        return len(value) == len(expected) and all(map(agrees, value, expected))
    if expected in ("inf", "-inf"):
        return bool(value == float(expected))
    if isinstance(expected, float):
        return math.isclose(value, expected, rel_tol=1e-6)
    return bool(value == expected)


ERRORS = {"IndexError": IndexError, "ValueError": ValueError, "RuntimeError": RuntimeError}


def load_expectations() -> dict[str, Any]:
    path = Path(__file__).resolve().parents[3] / "shared" / "cases" / "eager.json"
    if not path.exists():
        return {}
    return {entry["id"]: entry["expected"] for entry in json.loads(path.read_text())["cases"]}


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name: str, shared: Path) -> None:
    expected = load_expectations()[name]
    if isinstance(expected, dict):
        with pytest.raises(tuple(ERRORS[kind] for kind in expected["raises"])) as caught:
            CASES[name]()
        assert len(str(caught.value)) > 20, "the message must say what is wrong"
    else:
        value = CASES[name]()
        assert agrees(value, expected), f"{value} is not {expected}"


def test_every_case_is_written(shared: Path) -> None:
    assert CASES.keys() == load_expectations().keys()
