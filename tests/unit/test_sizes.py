"""Sizes that are negative or no integers are refused wherever a size is taken; zero is a size of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine import Generator, Tensor, int64, nn
from engine.errors import ShapeError

ROW = Tensor([1.0])
MAKERS: dict[str, Callable[..., Tensor]] = {
    "zeros": engine.zeros,
    "ones": engine.ones,
    "full": lambda *shape: engine.full(shape[0] if len(shape) == 1 else shape, 2.0),
    "rand": engine.rand,
    "randn": engine.randn,
    "bits": Generator().bits,
    "uniform": Generator().uniform,
    "normal": Generator().normal,
    "broadcast_to": ROW.broadcast_to,
    "repeat": ROW.repeat,
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_shape_is_made_of_integers_that_are_not_negative(name: str) -> None:
    make = MAKERS[name]
    for shape in [(2, 3), (0, 3), (1,)]:
        assert make(*shape).shape == make(shape).shape == make(list(shape)).shape == shape
    assert make(np.int64(3)).shape == make(np.array([3])).shape == (3,)
    for negative in [(-3,), (2, -3), (-2, -3), (0, -1)]:
        axis = next(i for i, size in enumerate(negative) if size < 0)
        with pytest.raises(
            ShapeError, match=rf"size {negative[axis]} of axis {axis} .* must not be negative"
        ):
            make(*negative)
    for other in [2.5, True, "ab", None, (2.0,), Tensor([0.5])]:
        with pytest.raises(ShapeError, match="is not a shape; its entries must be integers"):
            make(other)


@pytest.mark.parametrize(
    "make",
    [
        lambda: engine.eye(-1),
        lambda: engine.eye(2, -1),
        lambda: engine.eye(1.5),
        lambda: engine.one_hot(Tensor([0]), -1),
        lambda: engine.one_hot(Tensor([], int64), -1),
        lambda: ROW.reshape(-3),
        lambda: ROW.reshape(-1, -3),
        lambda: ROW.reshape(1.0),
        lambda: Generator().integers(0, 2, (-1, -2)),
    ],
)
def test_others_that_take_sizes_refuse_them_too(make: Callable[[], Any]) -> None:
    with pytest.raises(ShapeError):
        make()


@given(rows=st.integers(0, 4), columns=st.integers(0, 4))
def test_eye_of_every_size_is_that_of_numpy(rows: int, columns: int) -> None:
    assert np.array_equal(np.asarray(engine.eye(rows, columns)).reshape(rows, columns), np.eye(rows, columns))


def test_a_refused_draw_does_not_move_the_stream() -> None:
    generator = Generator(1)
    with pytest.raises(ShapeError):
        generator.normal(-1)
    assert generator.state == Generator(1).state


def test_rand_and_randn_draw_from_a_generator_of_ones_own() -> None:
    assert engine.rand(3, generator=Generator(4)).tolist() == Generator(4).uniform(3).tolist()
    assert engine.randn(3, generator=Generator(4)).tolist() == Generator(4).normal(3).tolist()


LAYERS: list[tuple[Callable[..., nn.Module], dict[str, Any]]] = [
    (nn.Linear, {"in_features": 2, "out_features": 3}),
    (nn.Embedding, {"count": 2, "dim": 3}),
    (nn.LayerNorm, {"dim": 3}),
    (nn.RMSNorm, {"dim": 3}),
    (nn.MultiHeadAttention, {"embed_dim": 4, "num_heads": 2}),
    (nn.FeedForward, {"embed_dim": 4, "ff_dim": 8}),
    (nn.SwiGLU, {"embed_dim": 4, "ff_dim": 8}),
    (
        nn.GPT,
        {"vocab_size": 3, "embed_dim": 4, "num_heads": 2, "ff_dim": 4, "num_layers": 1, "seq_len": 2},
    ),
]


@pytest.mark.parametrize(("layer", "sizes"), LAYERS)
@pytest.mark.parametrize("bad", [0, -3, 2.5, True, "2"])
def test_a_layer_names_the_size_that_is_none(
    layer: Callable[..., nn.Module], sizes: dict[str, int], bad: Any
) -> None:
    assert layer(**sizes)
    for name in sizes:
        with pytest.raises(ValueError, match=rf"^{name} is {bad!r}; it must be an integer of at least 1"):
            layer(**{**sizes, name: bad})


def test_heads_divide_the_width_and_rotate_in_pairs() -> None:
    with pytest.raises(ShapeError, match=r"embed_dim is 4; it must be a multiple of num_heads \(3\)"):
        nn.MultiHeadAttention(4, 3)
    with pytest.raises(ShapeError, match=r"embed_dim is 6; for a rotation it must be num_heads \(2\) times"):
        nn.MultiHeadAttention(6, 2, rotary=True)
    with pytest.raises(ShapeError, match=r"\(2, 4\); it must be \(batch, positions, embed_dim\)"):
        nn.MultiHeadAttention(4, 2)(Tensor.zeros(2, 4))


@pytest.mark.parametrize("layer", [nn.LayerNorm(3), nn.RMSNorm(3)])
@pytest.mark.parametrize("shape", [(2, 4), (2, 1), (), (2, 0)])
def test_a_norm_says_which_size_it_takes(layer: nn.Module, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"the input has shape .*; its last axis must be dim = 3"):
        layer(Tensor.zeros(shape))


def test_functional_norms_refuse_vectors_that_are_no_row() -> None:
    x = Tensor.ones(2, 4)
    for vector in (Tensor.ones(3), Tensor.ones(1), Tensor.ones(2, 4)):
        with pytest.raises(ShapeError, match=r"must have the shape \(4,\) of its last axis"):
            x.layernorm(vector)
        with pytest.raises(ShapeError, match=r"must have the shape \(4,\) of its last axis"):
            x.layernorm(None, vector)
        with pytest.raises(ShapeError, match=r"must have the shape \(4,\) of its last axis"):
            x.rmsnorm(vector)
    with pytest.raises(ShapeError, match="a scalar has no rows"):
        Tensor(1.0).layernorm()
    assert Tensor.zeros(2, 0).layernorm().shape == Tensor.zeros(2, 0).rmsnorm().shape == (2, 0)


@pytest.mark.parametrize("shape", [(10**18, 100), (10**20,), (0, 2**62)])
def test_more_elements_than_can_be_addressed_are_refused(shape: tuple[int, ...]) -> None:
    for make in (engine.zeros, engine.rand):
        with pytest.raises(ShapeError, match="has too many elements; at most"):
            make(*shape)
