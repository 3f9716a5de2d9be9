"""A training step of the makemore perceptron on one core, beside torch eager: ``python -m bench.makemore``.

Context 3, embedding 10, hidden 100, 27 letters, batch 64, gradient descent (Karpathy's makemore, part 2).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec

from bench.pairing import OURS, compare, write
from engine import Generator, Tensor, int64
from engine.devices.cpu import CpuDevice
from engine.devices.device import use_device
from engine.nn import CrossEntropyLoss, Embedding, Linear
from engine.optim import SGD
from engine.tracing import compile

BATCH, CONTEXT, LETTERS, EMBEDDING, HIDDEN = 64, 3, 27, 10, 100


def draws() -> tuple[list[int], list[int]]:
    """Letters and what follows them; the arithmetic does not depend on which."""
    generator = Generator(1)
    letters = generator.integers(0, LETTERS, (BATCH * CONTEXT,))
    return letters.tolist(), generator.integers(0, LETTERS, (BATCH,)).tolist()


def our_step() -> Callable[[], object]:
    draw = Generator(0)
    embedding = Embedding(LETTERS, EMBEDDING, draw)
    hidden = Linear(CONTEXT * EMBEDDING, HIDDEN, generator=draw)
    out = Linear(HIDDEN, LETTERS, generator=draw)
    optimizer = SGD([*embedding.parameters(), *hidden.parameters(), *out.parameters()], lr=0.1)
    loss_of = CrossEntropyLoss()
    seen, following = draws()
    letters, targets = Tensor(seen, int64).reshape(BATCH, CONTEXT), Tensor(following, int64)

    @compile
    def step(letters: Tensor, targets: Tensor) -> Tensor:
        vectors = embedding(letters).reshape(letters.shape[0], CONTEXT * EMBEDDING)
        loss = loss_of(out(hidden(vectors).tanh()), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return lambda: step(letters, targets)


def torch_step() -> Callable[[], object]:
    import torch
    from torch import nn

    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Embedding(LETTERS, EMBEDDING),
        nn.Flatten(1),
        nn.Linear(CONTEXT * EMBEDDING, HIDDEN),
        nn.Tanh(),
        nn.Linear(HIDDEN, LETTERS),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen, following = draws()
    letters, targets = torch.tensor(seen).reshape(BATCH, CONTEXT), torch.tensor(following)

    def step() -> None:
        loss = nn.functional.cross_entropy(model(letters), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with use_device(CpuDevice(threads=1)):
        contenders = {OURS: our_step()}
        if find_spec("torch"):
            contenders["torch"] = torch_step()
        rows = [compare("one core", contenders, work=1, unit="steps/s", turns=15, min_seconds=0.2)]
    write("makemore", rows)


if __name__ == "__main__":
    main()
