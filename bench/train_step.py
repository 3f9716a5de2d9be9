"""A training step of the 550,977-parameter GPT as a plan, beside our eager one and torch eager and compiled.

``python -m bench.train_step``
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec

from bench.pairing import OURS, compare, write
from engine import Generator, Tensor
from engine.data.windows import Windows
from engine.nn import GPT, CrossEntropyLoss
from engine.optim import Adam
from engine.tracing import compile

BATCHES = (1, 8, 32)
TOKENS = 100_000


def new_model() -> GPT:
    return GPT(65, 128, 4, 256, 4, 32, generator=Generator(0))


def windows() -> Windows:
    """Windows over random characters: the arithmetic does not depend on what they say."""
    from array import array

    return Windows(array("i", Generator(1).integers(0, 65, (TOKENS,)).tolist()), 32, seed=0)


def our_step(batch: int, planned: bool) -> Callable[[], object]:
    model, data, loss_of = new_model(), windows(), CrossEntropyLoss()
    optimizer = Adam(model.parameters(), lr=1e-3)
    rows = data.batch(0, batch)

    def step(tokens: Tensor, targets: Tensor) -> Tensor:
        loss = loss_of(model(tokens), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    run = compile(step) if planned else step
    return lambda: run(rows.tokens, rows.targets)


def torch_step(batch: int, compiled: bool) -> Callable[[], object]:
    import numpy as np
    import torch

    from bench.torch_gpt import TorchGPT

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = TorchGPT(new_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    rows = windows().batch(0, batch)
    tokens, targets = (torch.tensor(np.asarray(x), dtype=torch.long) for x in (rows.tokens, rows.targets))

    forward = torch.compile(model) if compiled else model

    def step() -> None:
        loss = torch.nn.functional.cross_entropy(forward(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def main() -> None:
    rows = []
    for batch in BATCHES:
        contenders = {OURS: our_step(batch, planned=True), "eager": our_step(batch, planned=False)}
        if find_spec("torch"):
            contenders["torch"] = torch_step(batch, compiled=False)
            contenders["torch.compile"] = torch_step(batch, compiled=True)
        rows.append(
            compare(f"batch {batch}", contenders, work=batch * 32, unit="tokens/s", turns=5, min_seconds=0.3)
        )
    write("train_step", rows)


if __name__ == "__main__":
    main()
