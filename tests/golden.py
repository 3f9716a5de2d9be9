"""Computations whose bits are the same in every build. ``python tests/golden.py`` prints a digest of each.

Without pytest and NumPy, so that it runs wherever the engine does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from engine import Generator, Tensor, compile
from engine.training import Training

TEXT = "the quick brown fox jumps over the lazy dog. " * 12
GPT = {"name": "gpt", "embed_dim": 8, "num_heads": 2, "ff_dim": 12, "num_layers": 2, "seq_len": 6}
STEPS = 20

RUNS: dict[str, dict[str, Any]] = {
    "gpt adamw": {"optimizer": "adamw", "weight_decay": 0.1, "schedule": "cosine", "warmup_steps": 4},
    "gpt dropout, clipped": {"model": {**GPT, "dropout": 0.3}, "clip_norm": 0.2},
    "gpt rotary, tied, swiglu": {
        "model": {**GPT, "positions": "rotary", "tied": True, "norm": "rmsnorm", "feed_forward": "swiglu"},
        "optimizer": "lion",
    },
    "gpt sgd": {"optimizer": "sgd", "momentum": 0.9, "clip_norm": 0.5},
    "mlp adam": {"model": {"name": "mlp"}, "optimizer": "adam", "weight_decay": 0.01},
    "mlp rmsprop": {"model": {"name": "mlp"}, "optimizer": "rmsprop", "schedule": "linear"},
    "bigram adagrad": {"model": {"name": "bigram"}, "optimizer": "adagrad", "batch": 1},
}
GOLDEN = {
    "gpt dropout, clipped": "774f26bd0ea06b90ce0b79f783fb6c25",
    "mlp adam": "1301b9579f9d3beca3d53a8e426ae3b4",
}
"""Digests of the weights after fifty steps."""


def training(changes: dict[str, Any], make: Callable[..., Training] = Training, *more: Any) -> Training:
    spec = {"model": GPT, "steps": STEPS, "batch": 3, "lr": 0.01, "seed": 5, **changes}
    return make(spec, TEXT, *more)


def weights_after_fifty_steps(name: str) -> str:
    run = training({**RUNS[name], "steps": 50})
    while run.step < 50:
        run.run_step()
    return digest(*run.model.state_dict().values())


def digest(*tensors: Tensor) -> str:
    return sha256(b"".join(x._value.tobytes() for x in tensors)).hexdigest()[:32]


def rows() -> list[Tensor]:
    """Softmax, layer norm and products at sizes that leave tails, with their gradients."""
    found = []
    for m, k, n in ((1, 1, 1), (3, 5, 7), (17, 33, 65), (130, 64, 129)):
        draw = Generator(m)
        x, w = draw.normal(m, k), draw.normal(k, n)

        @compile
        def both(x: Tensor, w: Tensor) -> list[Tensor]:
            x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
            y = (x.layernorm().gelu() @ w).softmax()
            (y * y).sum().backward()
            assert x.grad is not None
            assert w.grad is not None
            return [y, x.grad, w.grad, (x.exp().log1p().tanh() / 3.0).cumsum(0)]

        found += both(x, w)
    return found


def digests() -> dict[str, str]:
    return {**{name: weights_after_fifty_steps(name) for name in GOLDEN}, "rows": digest(*rows())}


if __name__ == "__main__":
    print(json.dumps(digests()))
