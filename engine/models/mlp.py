"""The multi-layer perceptron over a fixed number of tokens (Bengio and others 2003)."""

from __future__ import annotations

from typing import Any

from engine.models.config import MLPConfig
from engine.nn.layers import Embedding, Linear
from engine.nn.module import Module
from engine.random import Generator, default_generator
from engine.tensor import Tensor
from engine.tensor.promotion import as_tensor


class MLP(Module):
    """Tokens (batch, positions) to logits (batch, 1, vocab_size) of the token after the last.

    The last ``seq_len`` tokens count; missing ones at the left are token 0.
    """

    def __init__(self, config: MLPConfig, generator: Generator | None = None) -> None:
        self.config = config
        draw = generator or default_generator()
        self.embedding = Embedding(config.vocab_size, config.embed_dim, draw)
        self.hidden = Linear(config.seq_len * config.embed_dim, config.hidden_dim, generator=draw)
        self.out = Linear(config.hidden_dim, config.vocab_size, generator=draw)

    def forward(self, tokens: Any) -> Tensor:
        tokens = as_tensor(tokens)
        length = self.config.seq_len
        recent = tokens[:, -length:].pad([(0, 0), (max(length - tokens.shape[1], 0), 0)])
        joined = self.embedding(recent).reshape(tokens.shape[0], 1, length * self.config.embed_dim)
        return self.out(self.hidden(joined).tanh())
