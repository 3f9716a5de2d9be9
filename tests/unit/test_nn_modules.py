"""Modules: what counts as theirs, saving and loading, layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine import Generator, Tensor, bfloat16, float64, grad_check, manual_seed, nn
from engine.errors import DTypeError, ShapeError


class Nested(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(2, 3)
        self.table = {"a": nn.Linear(3, 3), "b": [nn.LayerNorm(3), nn.Parameter([1.0])]}
        self.pair = (nn.Embedding(4, 3),)
        self.shared = self.first
        self.note = "not a module"
        self.constant = Tensor([1.0])


def test_parameters_are_found_in_lists_tuples_and_dicts_in_order_and_once() -> None:
    names = [name for name, _ in Nested().named_parameters()]
    assert names == [
        *("first.weight", "first.bias", "table.a.weight", "table.a.bias"),
        *("table.b.0.weight", "table.b.0.bias", "table.b.1", "pair.0.weight"),
    ]


def test_modes_reach_every_module() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5)))
    assert model.eval().training is False
    assert all(not module.training for _, module in model.named_modules())
    assert all(module.training for _, module in model.train().named_modules())


def test_state_is_a_snapshot_and_loading_is_strict() -> None:
    model, other = Nested(), Nested()
    state = model.state_dict()
    other.load_state_dict(state)
    assert [p.tolist() for p in other.parameters()] == [p.tolist() for p in model.parameters()]
    with pytest.raises(KeyError, match=r"missing \['first.bias'\], unknown \['extra'\]"):
        other.load_state_dict({("extra" if k == "first.bias" else k): v for k, v in state.items()})
    with pytest.raises(
        ValueError, match=r"first.weight is float32\[3, 2\], the value given is float32\[2, 3\]"
    ):
        other.load_state_dict({**state, "first.weight": Tensor.zeros(2, 3)})
    with pytest.raises(ValueError, match="float64"):
        other.load_state_dict({**state, "first.bias": Tensor.zeros(3, dtype=float64)})
    assert all(parameter.requires_grad for parameter in other.parameters())


def test_the_same_seed_gives_the_same_parameters() -> None:
    manual_seed(7)
    first = nn.Linear(3, 4).weight.tolist()
    manual_seed(7)
    assert nn.Linear(3, 4).weight.tolist() == first
    assert nn.Linear(3, 4, generator=Generator(7)).weight.tolist() == first


def test_linear_draws_from_its_range_and_multiplies_rows() -> None:
    layer = nn.Linear(64, 32)
    assert layer.weight.shape == (32, 64)
    assert max(map(abs, layer.weight.flatten().tolist())) <= 0.125
    x = np.random.default_rng(0).standard_normal((2, 3, 64)).astype(np.float32)
    expected = x @ np.asarray(layer.weight).T + np.asarray(layer.bias)
    np.testing.assert_allclose(np.asarray(layer(Tensor(x))), expected, rtol=1e-4, atol=1e-5)
    assert layer(Tensor.zeros(0, 64)).shape == (0, 32)
    with pytest.raises(ShapeError, match="in_features = 64"):
        layer(Tensor.zeros(2, 63))


def test_embedding_reads_rows_and_refuses_what_is_no_row() -> None:
    layer = nn.Embedding(5, 2)
    assert layer([[0, 4], [1, 1]]).shape == (2, 2, 2)
    for bad in ([5], [-1]):
        with pytest.raises(IndexError, match="out of range"):
            layer(bad)
    with pytest.raises(DTypeError, match="must be integers"):
        layer([0.5])
    layer([1, 1, 3]).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[0, 0], [2, 2], [0, 0], [1, 1], [0, 0]]


def test_dropout_scales_and_is_off_in_evaluation() -> None:
    layer = nn.Dropout(0.25, Generator(1))
    x = Tensor.ones(10_000)
    kept = np.asarray(layer(x))
    assert set(np.unique(kept)) == {0.0, np.float32(1.0 / 0.75)}
    assert abs((kept == 0).mean() - 0.25) < 0.02
    assert not np.array_equal(kept, np.asarray(layer(x)))
    layer.eval()
    assert layer(x) is x
    with pytest.raises(ValueError, match="rate is 1"):
        nn.Dropout(1.0)


ACTIVATIONS: list[Any] = [nn.ReLU(), nn.GELU(), nn.GELU(exact=True), nn.SiLU(), nn.Sigmoid(), nn.Tanh()]


@pytest.mark.parametrize("layer", ACTIVATIONS)
def test_activations_keep_shape_and_dtype(layer: nn.Module) -> None:
    assert layer(Tensor.ones(2, 0, 3, dtype=bfloat16)).shape == (2, 0, 3)
    assert layer(Tensor.ones(2, dtype=bfloat16)).dtype is bfloat16


def attention_by_numpy(layer: nn.MultiHeadAttention, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Head by head, row by row."""
    weight, bias = np.asarray(layer.qkv.weight, np.float64), np.asarray(layer.qkv.bias, np.float64)
    batch, count, width = x.shape
    size = width // layer.num_heads
    projected = x @ weight.T + bias
    mixed = np.zeros_like(x, np.float64)
    for b in range(batch):
        for head in range(layer.num_heads):
            columns = slice(head * size, (head + 1) * size)
            q, k, v = (projected[b, :, i * width : (i + 1) * width][:, columns] for i in range(3))
            for t in range(count):
                scores = k[: t + 1] @ q[t] / np.sqrt(size)
                weights = np.exp(scores - scores.max())
                mixed[b, t, columns] = weights @ v[: t + 1] / weights.sum()
    return mixed @ np.asarray(layer.out.weight, np.float64).T + np.asarray(layer.out.bias, np.float64)


@pytest.mark.parametrize("shape", [(2, 5, 12), (1, 1, 12), (3, 2, 12)])
def test_attention_looks_back_only(shape: tuple[int, int, int]) -> None:
    layer = nn.MultiHeadAttention(12, 3, generator=Generator(3))
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(
        np.asarray(layer(Tensor(x))), attention_by_numpy(layer, x), rtol=1e-4, atol=1e-5
    )


def test_rotary_scores_depend_on_distance_only() -> None:
    from engine.nn.attention import rotate, rotation

    q, k = (Tensor(np.random.default_rng(i).standard_normal((1, 8)).astype(np.float32)) for i in (0, 1))

    def score(at: int, distance: int) -> float:
        turns = [rotation(Tensor([place]), 8, q.dtype) for place in (at + distance, at)]
        turned = rotate(q, *turns[0]) @ rotate(k, *turns[1]).T
        return turned.item()

    assert score(0, 3) == pytest.approx(score(11, 3), rel=1e-4)
    assert score(0, 3) != pytest.approx(score(0, 4), rel=1e-3)


def test_a_query_that_may_see_nothing_gives_zero() -> None:
    inf = float("inf")
    bias = Tensor([[-inf, -inf], [0.0, -inf]])
    ones = Tensor.ones(2, 4, requires_grad=True)
    result = nn.scaled_dot_product_attention(ones, ones, Tensor([[1.0], [2.0]]), bias)
    assert result.tolist() == [[0.0], [1.0]]
    result.sum().backward()
    assert ones.grad is not None
    assert np.isfinite(np.asarray(ones.grad)).all()


def test_gradient_of_a_block() -> None:
    layer = nn.MultiHeadAttention(4, 2, generator=Generator(5))
    weights = [layer.qkv.weight, layer.out.weight]

    def run(x: Tensor, qkv: Tensor, out: Tensor) -> Tensor:
        layer.qkv.weight, layer.out.weight = qkv, out  # type: ignore[assignment]
        layer.qkv.bias = layer.out.bias = None
        return layer(x)

    x = Tensor(np.random.default_rng(0).standard_normal((1, 3, 4)))
    layer.rotary = False
    assert grad_check(run, [x, *weights])


def test_a_module_shows_its_tree_with_shapes_and_settings() -> None:
    assert repr(nn.Linear(2, 3)) == "Linear(weight=(3, 2), bias=(3,))"
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.GELU(), nn.Dropout(0.5)).eval()
    assert repr(model).splitlines() == [
        "Sequential()",
        "  layers.0: Linear(weight=(3, 2))",
        "  layers.1: GELU()",
        "  layers.2: Dropout(rate=0.5)",
    ]
    assert repr(Nested()).splitlines() == [
        "Nested(note='not a module')",
        "  first: Linear(weight=(3, 2), bias=(3,))",
        "  table.a: Linear(weight=(3, 3), bias=(3,))",
        "  table.b.0: LayerNorm(weight=(3,), bias=(3,), eps=1e-05)",
        "  table.b.1: Parameter(1,)",
        "  pair.0: Embedding(weight=(4, 3))",
    ]
