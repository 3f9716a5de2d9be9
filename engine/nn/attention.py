"""Causal self-attention over several heads, with one projection for queries, keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

from engine.core.dtype import DType, float32
from engine.core.shapes import text
from engine.errors import ShapeError
from engine.nn.layers import Dropout, Linear
from engine.nn.module import Module, require_positive
from engine.random import Generator
from engine.tensor import Tensor, arange, cat, where
from engine.tensor.cell import untraced
from engine.tensor.functional import causal_mask, masked_softmax
from engine.tensor.movement import take


@lru_cache(maxsize=64)
def causal_bias(count: int) -> Tensor:
    """float32 (count, count) to add to scores: -inf where the key comes after the query, else 0."""
    with untraced():
        return causal_mask(Tensor.zeros(count, count)).detach()


@lru_cache(maxsize=64)
def first_rotations(count: int, size: int, dtype: DType) -> tuple[Tensor, Tensor]:
    """``rotation`` of the positions 0 … count - 1."""
    with untraced():
        return rotation(arange(count), size, dtype)


def rotation(position: Tensor, size: int, dtype: DType) -> tuple[Tensor, Tensor]:
    """cos and sin (count, size / 2) of the angles of positions (count,) (Su and others 2021)."""
    rate = (arange(size // 2).astype(float32) * (-2.0 / size) * 9.210340371976184).exp()  # 10000^(-2i/size)
    angle = position.astype(float32).unsqueeze(1) * rate
    return angle.cos().astype(dtype), angle.sin().astype(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates vectors (…, positions, size), halves as coordinates, by cos and sin (positions, size/2)."""
    half = x.shape[-1] // 2
    axis = len(x.shape) - 1
    first, second = take(x, axis, 0, half), take(x, axis, half, half)
    return cat([first * cos - second * sin, second * cos + first * sin], -1)


@dataclass(slots=True)
class KeysAndValues:
    """What one layer remembers of ``room`` positions: keys and values (batch, heads, size, room)."""

    keys: Tensor
    values: Tensor


@dataclass(frozen=True, slots=True)
class Place:
    """Where new positions go among ``room`` remembered ones.

    ``slot`` is bool (room,), true at their places. ``order`` is int (room,) and tells which of them goes into
    each; None where there is one. ``bias`` is float32 (positions, room): 0 where a position sees what is
    remembered, itself included, else -inf. ``turn`` holds cos and sin (positions, size / 2) of the rotations.
    """

    slot: Tensor
    order: Tensor | None
    bias: Tensor
    turn: tuple[Tensor, Tensor] | None = None


def scaled_dot_product_attention(
    queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None
) -> Tensor:
    """softmax(q kᵀ / √size + bias) v for (…, positions, size); a query whose keys are all masked gives 0.

    ``bias`` broadcasts against the scores (…, queries, keys) and holds -inf where a key is masked.
    """
    scores = (queries * (1.0 / sqrt(queries.shape[-1]))) @ keys.T
    if bias is None:
        return scores.softmax() @ values
    return masked_softmax(scores + bias) @ values


class MultiHeadAttention(Module):
    """Causal self-attention (batch, positions, embed_dim) to the same shape."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        rotary: bool = False,
        generator: Generator | None = None,
    ) -> None:
        require_positive(embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise ShapeError(f"embed_dim is {embed_dim}; it must be a multiple of num_heads ({num_heads})")
        if rotary and embed_dim // num_heads % 2:
            rule = f"for a rotation it must be num_heads ({num_heads}) times an even number"
            raise ShapeError(f"embed_dim is {embed_dim}; {rule}")
        self.num_heads = num_heads
        self.rotary = rotary
        self.qkv = Linear(embed_dim, 3 * embed_dim, generator=generator)
        self.out = Linear(embed_dim, embed_dim, generator=generator)
        self.dropout = Dropout(dropout, generator)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 3:
            raise ShapeError(f"the input has shape {text(x.shape)}; it must be (batch, positions, embed_dim)")
        _, count, width = x.shape
        queries, keys, values = self._project(x)
        if self.rotary:
            turn = first_rotations(count, width // self.num_heads, x.dtype)
            queries, keys = rotate(queries, *turn), rotate(keys, *turn)
        scores = (queries * (1.0 / sqrt(width // self.num_heads))) @ keys.T
        if count > 1:
            scores = scores + causal_bias(count)
        return self._mix(scores, values)

    def step(self, x: Tensor, memory: KeysAndValues, place: Place, last: int) -> Tensor:
        """The ``last`` of positions (batch, count, embed_dim) after those in ``memory``.

        Afterwards ``memory`` holds all. The same bits as ``forward`` gives: masked positions add zeros.
        """
        queries, keys, values = self._project(x)
        if place.turn is not None:
            queries, keys = rotate(queries, *place.turn), rotate(keys, *place.turn)
        keys, values = keys.T, values.T
        if place.order is not None:
            keys, values = keys[..., place.order], values[..., place.order]
        memory.keys.assign(where(place.slot, keys, memory.keys))
        memory.values.assign(where(place.slot, values, memory.values))
        first = x.shape[1] - last
        queries, bias = take(queries, 2, first, last), take(place.bias, 0, first, last)
        scores = (queries * (1.0 / sqrt(x.shape[-1] // self.num_heads))) @ memory.keys + bias
        return self._mix(scores, memory.values.T)

    def _project(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values (batch, heads, positions, size)."""
        batch, count, width = x.shape
        projected = self.qkv(x)
        heads = (batch, count, self.num_heads, width // self.num_heads)
        return [take(projected, 2, i * width, width).reshape(heads).permute(0, 2, 1, 3) for i in range(3)]

    def _mix(self, scores: Tensor, values: Tensor) -> Tensor:
        """The output for scores (batch, heads, queries, keys) and values (batch, heads, keys, size)."""
        mixed = self.dropout(scores.softmax()) @ values
        batch, heads, count, size = mixed.shape
        return self.out(mixed.permute(0, 2, 1, 3).reshape(batch, count, heads * size))
