"""The initialisation of another engine, in its order of drawing, for models of ours."""

from __future__ import annotations

from math import sqrt
from random import Random

from engine import Tensor, cat
from engine.nn import GPT


class Drawing:
    """Draws parameters from Python's generator: weights row by row, then the bias."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def table(self, rows: int, columns: int, bound: float) -> Tensor:
        return Tensor([[self.random.uniform(-bound, bound) for _ in range(columns)] for _ in range(rows)])

    def linear(self, inputs: int, outputs: int) -> dict[str, Tensor]:
        bound = 1.0 / sqrt(inputs)
        weight = self.table(outputs, inputs, bound)
        return {"weight": weight, "bias": self.table(1, outputs, bound)[0]}


def draw_gpt(model: GPT, seed: int) -> Random:
    """Gives ``model`` the parameters drawn from ``seed``; returns the generator as it is afterwards.

    Order: token embedding, positions; for each block the output projection, then for each head its query, key
    and value, then the feed-forward layers; last the output layer. Norms are not drawn.
    """
    config, drawing = model.config, Drawing(seed)
    width, size = config.embed_dim, config.embed_dim // config.num_heads
    state = model.state_dict()

    def put(name: str, parts: dict[str, Tensor]) -> None:
        state.update({f"{name}.{part}": value for part, value in parts.items()})

    state["embedding.weight"] = drawing.table(config.vocab_size, width, 1.0)
    state["positions"] = drawing.table(config.seq_len, width, 0.02)
    for i in range(config.num_layers):
        put(f"blocks.{i}.attention.out", drawing.linear(width, width))
        heads = [[drawing.linear(width, size) for _ in range(3)] for _ in range(config.num_heads)]
        put(
            f"blocks.{i}.attention.qkv",
            {part: cat([head[k][part] for k in range(3) for head in heads]) for part in ("weight", "bias")},
        )
        put(f"blocks.{i}.feed_forward.up", drawing.linear(width, config.ff_dim))
        put(f"blocks.{i}.feed_forward.down", drawing.linear(config.ff_dim, width))
    put("head", drawing.linear(width, config.vocab_size))
    model.load_state_dict(state)
    return drawing.random
