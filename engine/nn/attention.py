"""Causal self-attention over several heads, with one projection for queries, keys and values."""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

from engine.core.dtype import DType, float32
from engine.nn.layers import Dropout, Linear
from engine.nn.module import Module
from engine.random import Generator
from engine.tensor import Tensor, arange, cat
from engine.tensor.functional import causal_mask, masked_softmax
from engine.tensor.movement import take


@lru_cache(maxsize=64)
def causal_bias(queries: int, keys: int) -> Tensor:
    """float32 (queries, keys) to add to scores: -inf where the key comes after the query, else 0.

    The queries are the last ones of ``keys`` positions.
    """
    return causal_mask(Tensor.zeros(keys, keys))[keys - queries :].fresh()


@lru_cache(maxsize=64)
def rotation(start: int, count: int, size: int, dtype: DType) -> tuple[Tensor, Tensor]:
    """cos and sin (count, size / 2) of the angles of positions from ``start`` (Su and others 2021)."""
    position = arange(start, start + count).astype(float32).unsqueeze(1)
    rate = (arange(size // 2).astype(float32) * (-2.0 / size) * 9.210340371976184).exp()  # 10000^(-2i/size)
    angle = position * rate
    return angle.cos().astype(dtype).fresh(), angle.sin().astype(dtype).fresh()


def rotate(x: Tensor, start: int) -> Tensor:
    """Rotates the halves of each head vector of x (…, positions, size) by the angle of its position."""
    half = x.shape[-1] // 2
    cos, sin = rotation(start, x.shape[-2], x.shape[-1], x.dtype)
    axis = len(x.shape) - 1
    first, second = take(x, axis, 0, half), take(x, axis, half, half)
    return cat([first * cos - second * sin, second * cos + first * sin], -1)


class KeyValueCache:
    """Keys and values (batch, heads, positions, size) of the positions that one layer has seen."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    @property
    def length(self) -> int:
        return 0 if self.keys is None else self.keys.shape[2]

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Appends positions and returns all."""
        if self.keys is not None and self.values is not None:
            keys, values = cat([self.keys, keys], 2), cat([self.values, values], 2)
        self.keys, self.values = keys, values
        return keys, values


def attention(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None) -> Tensor:
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
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim is {embed_dim}; it must be a multiple of num_heads ({num_heads})")
        self.num_heads = num_heads
        self.rotary = rotary
        self.qkv = Linear(embed_dim, 3 * embed_dim, generator=generator)
        self.out = Linear(embed_dim, embed_dim, generator=generator)
        self.dropout = Dropout(dropout, generator)

    def forward(self, x: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        """With a cache, x are the positions that follow those it holds."""
        batch, count, width = x.shape
        projected = self.qkv(x)
        queries, keys, values = (self._heads(take(projected, 2, i * width, width)) for i in range(3))
        if self.rotary:
            start = cache.length if cache else 0
            queries, keys = rotate(queries, start), rotate(keys, start)
        if cache is not None:
            keys, values = cache.extend(keys, values)
        scores = (queries * (1.0 / sqrt(width // self.num_heads))) @ keys.T
        if count > 1:
            scores = scores + causal_bias(count, keys.shape[2])
        mixed = self.dropout(scores.softmax()) @ values
        return self.out(mixed.permute(0, 2, 1, 3).reshape(batch, count, width))

    def _heads(self, x: Tensor) -> Tensor:
        """(batch, positions, embed_dim) as (batch, heads, positions, size)."""
        batch, count, width = x.shape
        return x.reshape(batch, count, self.num_heads, width // self.num_heads).permute(0, 2, 1, 3)
