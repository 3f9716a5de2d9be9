"""The same GPT in plain torch, as the peer of the training and sampling benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from engine.nn import GPT


class Block(nn.Module):
    """x + attention(norm x), then x + feed-forward(norm x); keys and values may be remembered."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.attention = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width)})
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.ModuleDict({"up": nn.Linear(width, hidden), "down": nn.Linear(hidden, width)})

    def forward(self, x: Any, memory: list[Any] | None) -> Any:
        batch, count, width = x.shape
        projected = self.attention["qkv"](self.attention_norm(x))
        q, k, v = projected.view(batch, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if memory is not None:
            if memory:
                k, v = torch.cat([memory[0], k], 2), torch.cat([memory[1], v], 2)
            memory[:] = k, v
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=count > 1)
        x = x + self.attention["out"](mixed.transpose(1, 2).reshape(batch, count, width))
        hidden = functional.gelu(self.feed_forward["up"](self.feed_forward_norm(x)), approximate="tanh")
        return x + self.feed_forward["down"](hidden)


class TorchGPT(nn.Module):
    """A copy of ``model``, parameters included."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        c = model.config
        self.embedding = nn.Embedding(c.vocab_size, c.embed_dim)
        self.positions = nn.Parameter(torch.zeros(c.seq_len, c.embed_dim))
        self.blocks = nn.ModuleList(Block(c.embed_dim, c.num_heads, c.ff_dim) for _ in range(c.num_layers))
        self.norm = nn.LayerNorm(c.embed_dim)
        self.head = nn.Linear(c.embed_dim, c.vocab_size)
        self.load_state_dict({k: torch.tensor(np.asarray(v)) for k, v in model.state_dict().items()})

    def forward(self, tokens: Any, memories: list[list[Any]] | None = None, start: int = 0) -> Any:
        x = self.embedding(tokens) + self.positions[start : start + tokens.shape[1]]
        for i, block in enumerate(self.blocks):
            x = block(x, memories[i] if memories is not None else None)
        return self.head(self.norm(x))
