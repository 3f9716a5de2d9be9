"""The decoder-only transformer (Radford and others 2019), pre-norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from engine.core.dtype import INTS
from engine.errors import DTypeError, ShapeError
from engine.models.config import GPTConfig
from engine.nn.attention import KeysAndValues, MultiHeadAttention, Place
from engine.nn.layers import Dropout, Embedding, LayerNorm, Linear, RMSNorm
from engine.nn.module import Module, Parameter, require_positive
from engine.random import Generator, default_generator
from engine.tensor import Tensor
from engine.tensor.movement import take
from engine.tensor.promotion import as_tensor

_NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layernorm": LayerNorm, "rmsnorm": RMSNorm}


class FeedForward(Module):
    """Two linear layers with a tanh-form GELU between them."""

    def __init__(self, embed_dim: int, ff_dim: int, generator: Generator | None = None) -> None:
        require_positive(embed_dim=embed_dim, ff_dim=ff_dim)
        self.up = Linear(embed_dim, ff_dim, generator=generator)
        self.down = Linear(ff_dim, embed_dim, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).gelu())


class SwiGLU(Module):
    """down(silu(gate x) · up x) (Shazeer 2020); gate and up are one product."""

    def __init__(self, embed_dim: int, ff_dim: int, generator: Generator | None = None) -> None:
        require_positive(embed_dim=embed_dim, ff_dim=ff_dim)
        self.gate_up = Linear(embed_dim, 2 * ff_dim, generator=generator)
        self.down = Linear(ff_dim, embed_dim, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        both = self.gate_up(x)
        width = both.shape[-1] // 2
        axis = len(both.shape) - 1
        return self.down(take(both, axis, 0, width).silu() * take(both, axis, width, width))


class GPTBlock(Module):
    """x + attention(norm x), then x + feed-forward(norm x)."""

    def __init__(self, config: GPTConfig, generator: Generator | None = None) -> None:
        norm = _NORMS[config.norm]
        feed_forward = SwiGLU if config.feed_forward == "swiglu" else FeedForward
        self.attention_norm = norm(config.embed_dim)
        self.attention = MultiHeadAttention(
            config.embed_dim, config.num_heads, config.dropout, config.positions == "rotary", generator
        )
        self.feed_forward_norm = norm(config.embed_dim)
        self.feed_forward = feed_forward(config.embed_dim, config.ff_dim, generator)
        self.dropout = Dropout(config.dropout, generator)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))

    def step(self, x: Tensor, memory: KeysAndValues, place: Place, last: int) -> Tensor:
        """The ``last`` of positions (batch, count, embed_dim) after those in ``memory``."""
        mixed = self.attention.step(self.attention_norm(x), memory, place, last)
        x = take(x, 1, x.shape[1] - last, last) + mixed
        return x + self.feed_forward(self.feed_forward_norm(x))


class GPT(Module):
    """Tokens (batch, positions) to logits (batch, positions, vocab_size), for any length up to ``seq_len``.

    The arguments are the fields of ``GPTConfig``. Learned positions are drawn from U(±0.02).
    """

    def __init__(  # noqa: PLR0917  the sizes are known by their order
        self,
        vocab_size: int,
        embed_dim: int = 128,
        num_heads: int = 4,
        ff_dim: int = 256,
        num_layers: int = 4,
        seq_len: int = 32,
        *,
        dropout: float = 0.0,
        tied: bool = False,
        positions: Literal["learned", "rotary"] = "learned",
        norm: Literal["layernorm", "rmsnorm"] = "layernorm",
        feed_forward: Literal["gelu", "swiglu"] = "gelu",
        generator: Generator | None = None,
    ) -> None:
        sizes = (vocab_size, embed_dim, num_heads, ff_dim, num_layers, seq_len)
        self.config = config = GPTConfig(*sizes, dropout, tied, positions, norm, feed_forward)
        draw = generator or default_generator()
        self.positions = (
            Parameter(draw.uniform(seq_len, embed_dim, low=-0.02, high=0.02))
            if positions == "learned"
            else None
        )
        self.embedding = Embedding(vocab_size, embed_dim, draw)
        self.dropout = Dropout(dropout, generator)
        self.blocks = [GPTBlock(config, draw) for _ in range(num_layers)]
        self.norm = _NORMS[norm](embed_dim)
        self.head = Linear(embed_dim, vocab_size, generator=draw)
        if tied:
            self.head.weight = self.embedding.weight

    @classmethod
    def from_config(cls, config: GPTConfig, generator: Generator | None = None) -> GPT:
        """The model of a configuration, its parameters drawn from ``generator``."""
        return cls(
            config.vocab_size,
            config.embed_dim,
            config.num_heads,
            config.ff_dim,
            config.num_layers,
            config.seq_len,
            dropout=config.dropout,
            tied=config.tied,
            positions=config.positions,
            norm=config.norm,
            feed_forward=config.feed_forward,
            generator=generator,
        )

    def forward(self, tokens: Any) -> Tensor:
        """ShapeError for more than ``seq_len`` positions, IndexError for a token outside the vocabulary."""
        tokens = as_tensor(tokens)
        if tokens.dtype not in INTS:
            raise DTypeError(f"tokens are {tokens.dtype}; they must be integers")
        if tokens.ndim != 2 or tokens.shape[1] > self.config.seq_len:
            raise ShapeError(
                f"tokens have shape {tokens.shape}; they must be (batch, positions) with at most "
                f"seq_len = {self.config.seq_len} positions"
            )
        x = self.dropout(self.embed(tokens, 0))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def embed(self, tokens: Tensor, start: int) -> Tensor:
        """The vectors (batch, positions, embed_dim) that enter the blocks, for positions from ``start``."""
        x = self.embedding(tokens)
        return x if self.positions is None else x + take(self.positions, 0, start, tokens.shape[1])

    def step(self, x: Tensor, memories: Sequence[KeysAndValues], place: Place) -> Tensor:
        """Logits (batch, 1, vocab_size) after further positions, whose embeddings are x (batch, count, …).

        ``memories`` (one a block) hold the positions before them, and afterwards these too. For evaluation:
        nothing is dropped out.
        """
        *others, final = zip(self.blocks, memories, strict=True)
        for block, memory in others:
            x = block.step(x, memory, place, x.shape[1])
        x = final[0].step(x, final[1], place, 1)
        return self.head(self.norm(x))
