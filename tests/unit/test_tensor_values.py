"""Values of Tensor operations against NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine import Tensor, bfloat16, cat, float32, float64, int32, stack, where

Array = np.ndarray[Any, Any]
NUMBERS = st.floats(-4, 4, width=32)
BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=4), st.data())
@settings(max_examples=100, deadline=None)
def test_operators_broadcast_like_numpy(shapes: hnp.BroadcastableShapes, data: st.DataObject) -> None:
    left, right = (
        data.draw(hnp.arrays(np.float32, shape, elements=NUMBERS)) for shape in shapes.input_shapes
    )
    name = data.draw(st.sampled_from(sorted(BINARY)))
    with np.errstate(all="ignore"):
        expected = BINARY[name](left, right)
    result = BINARY[name](Tensor(left), Tensor(right))
    assert result.shape == expected.shape
    assert np.array_equal(np.asarray(result), expected, equal_nan=result.dtype.is_float)


@pytest.mark.filterwarnings("ignore:(Mean of empty|Degrees of freedom|invalid value):RuntimeWarning")
@given(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5), st.data())
@settings(max_examples=100, deadline=None)
def test_reductions_agree_with_numpy(shape: tuple[int, ...], data: st.DataObject) -> None:
    array = data.draw(hnp.arrays(np.float64, shape, elements=st.floats(-4, 4)))
    axis = data.draw(st.none() | hnp.valid_tuple_axes(len(shape)))
    keep = data.draw(st.booleans())
    name = data.draw(st.sampled_from(["sum", "prod", "mean", "var", "std", "max", "min", "any", "all"]))
    axes = tuple(range(len(shape))) if axis is None else tuple(a % len(shape) for a in axis)
    if name in ("max", "min") and any(shape[a] == 0 for a in axes):
        with pytest.raises(ValueError, match="of nothing"):
            getattr(Tensor(array), name)(axis, keep)
        return
    with np.errstate(all="ignore"):
        expected = np.asarray(getattr(np, name)(array, axis=axis, keepdims=keep))
    result = getattr(Tensor(array), name)(axis, keep)
    assert result.shape == expected.shape
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("name", ["argmax", "argmin", "cumsum", "cumprod"])
def test_positions_and_running_values(name: str, axis: int | None) -> None:
    array = np.array([[3, 1, 3], [-2, 5, 5]], np.int64)
    result = getattr(Tensor(array), name)(axis)
    assert np.array_equal(np.asarray(result), getattr(np, name)(array, axis=axis))


def test_scalars_have_one_axis_to_name() -> None:
    x = Tensor(5.0)
    assert x.mean(0).item() == x.cumsum(0).item() == x.flip().item() == 5.0
    with pytest.raises(IndexError):
        x.sum(1)


MATMULS = [
    ((2, 3), (3, 4)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (3,)),
    ((5, 2, 3), (3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 2)),
    ((1, 1), (1, 1)),
]


@pytest.mark.parametrize(("left", "right"), MATMULS)
def test_matmul_has_numpys_shapes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    result = Tensor(a) @ Tensor(b)
    assert result.shape == (a @ b).shape
    np.testing.assert_allclose(np.asarray(result), a @ b, rtol=1e-12)


def test_matmul_takes_lists_on_either_side() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert ([[1.0, 0.0]] @ x).tolist() == [[1.0, 2.0]]
    assert (x @ [1.0, 1.0]).tolist() == [3.0, 7.0]


MOVES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "permute": (lambda t: t.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "transpose": (lambda t: t.transpose(0, 2), lambda a: a.swapaxes(0, 2)),
    "T": (lambda t: t.T, lambda a: a.swapaxes(-1, -2)),
    "reshape of a view": (lambda t: t.T.reshape(-1, 3), lambda a: a.swapaxes(-1, -2).reshape(-1, 3)),
    "flip": (lambda t: t.flip(1), lambda a: np.flip(a, 1)),
    "flip all": (lambda t: t.flip(), np.flip),
    "unsqueeze": (lambda t: t.unsqueeze(-1).squeeze(-1), lambda a: a),
    "repeat": (lambda t: t.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3))),
    "pad": (
        lambda t: t.pad([(1, 0), (0, 2), (0, 0)], 7.0),
        lambda a: np.pad(a, [(1, 0), (0, 2), (0, 0)], constant_values=7),
    ),
    "pad that cuts": (
        lambda t: t.pad([(-1, 0), (0, -2), (0, 1)]),
        lambda a: np.pad(a[1:, :-2], [(0, 0), (0, 0), (0, 1)]),
    ),
    "tril": (lambda t: t.tril(-1), lambda a: np.tril(a, -1)),
    "triu": (lambda t: t.triu(1), lambda a: np.triu(a, 1)),
    "cat": (lambda t: cat([t, t[:, :1]], 1), lambda a: np.concatenate([a, a[:, :1]], 1)),
    "stack": (lambda t: stack([t, t + 1], -1), lambda a: np.stack([a, a + 1], -1)),
    "split": (lambda t: t.split(2, 2)[1], lambda a: a[:, :, 2:4]),
    "broadcast": (
        lambda t: t.unsqueeze(1).broadcast_to(2, 3, 3, 4),
        lambda a: np.broadcast_to(a[:, None], (2, 3, 3, 4)),
    ),
    "where": (lambda t: where(t > 11, t, -1.0), lambda a: np.where(a > 11, a, -1)),
    "clamp": (lambda t: t.clamp(3, 9.0), lambda a: np.clip(a, 3, 9)),
    "ceil": (lambda t: (t * 0.3).ceil(), lambda a: np.ceil(a * np.float32(0.3))),
    "power": (lambda t: t**3, lambda a: a**3),
    "maximum": (lambda t: t.maximum(5), lambda a: np.maximum(a, 5)),
}


@pytest.mark.parametrize("name", sorted(MOVES))
def test_rearrangements(name: str) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    ours, numpys = MOVES[name]
    result, expected = ours(Tensor(array)), numpys(array)
    assert result.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(result), expected)


def test_operations_that_join_refuse_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="may differ only on axis 0"):
        cat([Tensor.zeros(2, 3), Tensor.zeros(2, 4)])
    with pytest.raises(ValueError, match="stacked tensors have one shape"):
        stack([Tensor.zeros(2), Tensor.zeros(3)])
    with pytest.raises(ValueError, match="nothing to join"):
        cat([])


def test_integer_powers_stay_exact() -> None:
    x = Tensor([3, -2, 0], int32)
    assert (x**5).tolist() == [243, -32, 0]
    assert (x**0).tolist() == [1, 1, 1]
    assert (2 ** Tensor([3])).tolist() == [8.0]


EXTREMES: list[tuple[str, Callable[[Tensor], Tensor], float, float]] = [
    ("sigmoid", Tensor.sigmoid, -100.0, 3.783506e-44),
    ("sigmoid", Tensor.sigmoid, 100.0, 1.0),
    ("logsigmoid", Tensor.logsigmoid, -100.0, -100.0),
    ("softplus", Tensor.softplus, 100.0, 100.0),
    ("expm1", Tensor.expm1, 1e-10, 1e-10),
    ("log1p", Tensor.log1p, 1e-10, 1e-10),
    ("gelu", Tensor.gelu, -1e30, -0.0),
    ("gelu_exact", Tensor.gelu_exact, 1e30, 1e30),
    ("silu", Tensor.silu, -200.0, 0.0),
]


@pytest.mark.parametrize(("name", "function", "x", "expected"), EXTREMES)
def test_compositions_are_exact_at_extremes(
    name: str, function: Callable[[Tensor], Tensor], x: float, expected: float
) -> None:
    assert function(Tensor(x)).item() == pytest.approx(expected, rel=1e-6, abs=2e-45)


def test_softmax_family_with_infinities() -> None:
    inf = float("inf")
    assert Tensor([0.0, -inf, 0.0]).softmax().tolist() == [0.5, 0.0, 0.5]
    assert Tensor([-inf, -inf]).logsumexp().item() == -inf
    assert Tensor([inf, 1.0]).logsumexp().item() == inf
    assert np.isnan(np.asarray(Tensor([-inf, -inf]).softmax())).all()
    x = Tensor([0.0, -inf, 1.0], float64, requires_grad=True)
    x.softmax()[2].backward()
    assert x.grad is not None
    np.testing.assert_allclose(np.asarray(x.grad), [-0.19661193, 0.0, 0.19661193], rtol=1e-7)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layernorm", "gelu", "sigmoid", "rmsnorm"])
def test_bfloat16_compositions_round_once(name: str) -> None:
    x = Tensor(np.random.default_rng(0).standard_normal((3, 7)).astype(np.float32)).astype(bfloat16)
    result = getattr(x, name)()
    assert result.dtype is bfloat16
    wide = getattr(x.astype(float32), name)()
    np.testing.assert_allclose(np.asarray(result), np.asarray(wide), rtol=2**-8)
