"""The bigram model: the logits of the next token are a row of a table."""

from __future__ import annotations

from typing import Any

from engine.models.config import BigramConfig
from engine.nn.layers import Embedding
from engine.nn.module import Module, Parameter
from engine.random import Generator, default_generator
from engine.tensor import Tensor


class Bigram(Module):
    """Tokens (batch, positions) to logits (batch, positions, vocab_size), drawn from N(0, 0.1²)."""

    def __init__(self, config: BigramConfig, generator: Generator | None = None) -> None:
        self.config = config
        draw = generator or default_generator()
        self.table = Embedding(config.vocab_size, config.vocab_size, draw)
        self.table.weight = Parameter(draw.normal(config.vocab_size, config.vocab_size, std=0.1))

    def forward(self, tokens: Any) -> Tensor:
        return self.table(tokens)
