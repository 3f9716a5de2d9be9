"""One eager training step of the 550,977-parameter GPT beside torch eager: ``python -m bench.train_step``."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec

from bench.pairing import OURS, compare, write
from engine import Generator
from engine.data.windows import Windows
from engine.nn import GPT, CrossEntropyLoss
from engine.optim import Adam

BATCHES = (1, 8, 32)
TOKENS = 100_000


def new_model() -> GPT:
    return GPT(65, 128, 4, 256, 4, 32, generator=Generator(0))


def windows() -> Windows:
    """Windows over random characters: the arithmetic does not depend on what they say."""
    from array import array

    return Windows(array("i", Generator(1).integers(0, 65, (TOKENS,))), 32, seed=0)


def our_step(batch: int) -> Callable[[], object]:
    model, data, loss_of = new_model(), windows(), CrossEntropyLoss()
    optimizer = Adam(model.parameters(), lr=1e-3)
    rows = data.batch(0, batch)

    def step() -> None:
        loss = loss_of(model(rows.tokens), rows.targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def torch_step(batch: int) -> Callable[[], object]:
    import numpy as np
    import torch

    from bench.torch_gpt import TorchGPT

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = TorchGPT(new_model())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    rows = windows().batch(0, batch)
    tokens, targets = (torch.tensor(np.asarray(x), dtype=torch.long) for x in (rows.tokens, rows.targets))

    def step() -> None:
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def main() -> None:
    rows = []
    for batch in BATCHES:
        contenders = {OURS: our_step(batch)}
        if find_spec("torch"):
            contenders["torch"] = torch_step(batch)
        rows.append(
            compare(f"batch {batch}", contenders, work=batch * 32, unit="tokens/s", turns=5, min_seconds=0.3)
        )
    write("train_step", rows)


if __name__ == "__main__":
    main()
