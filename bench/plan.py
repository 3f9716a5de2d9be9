"""Plans: what a call costs, and the GPT's training step as one plan beside eager and torch: ``python -m bench.plan``."""

from __future__ import annotations

from importlib.util import find_spec

import engine
from bench.pairing import OURS, Row, compare, write
from bench.train_step import BATCHES, new_model, torch_step, windows
from engine.compiler.plan import Plan
from engine.core import build
from engine.core.dtype import float32
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.device import current_device
from engine.nn import CrossEntropyLoss
from engine.optim import Adam

SMALL = 8  # elements, so that only the call is timed


def call() -> Row:
    """One run of a plan of one kernel, beside the eager primitive."""
    device = current_device()
    assert isinstance(device, CpuDevice)
    x, y = (build.input((SMALL,), float32) for _ in range(2))
    plan = Plan([x, y], [build.add(x, y)], device)
    value = Array.from_list([1.0] * SMALL, (SMALL,), float32)
    feeds = {x: value, y: value}
    contenders = {
        OURS: lambda: plan.run(feeds),
        "eager": lambda: device.run("add", (), (value, value), (SMALL,), float32),
    }
    if find_spec("torch"):
        import torch

        one = torch.ones(SMALL)
        contenders["torch"] = lambda: one + one
    return compare("call", contenders, work=1e-6, unit="M calls/s")


def training(batch: int) -> Row:
    """One step of Adam, compiled and eager, each on a model of its own."""

    def step(compiled: bool) -> object:
        model, loss_of = new_model(), CrossEntropyLoss()
        optimizer = Adam(model.parameters(), lr=1e-3)
        rows = windows().batch(0, batch)
        tokens, targets = (engine.Tensor(x) for x in (rows.tokens, rows.targets))

        def once(tokens: engine.Tensor, targets: engine.Tensor) -> engine.Tensor:
            loss = loss_of(model(tokens), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = engine.compile(once) if compiled else once
        return lambda: run(tokens, targets).item()

    contenders = {OURS: step(True), "eager": step(False)}
    if find_spec("torch"):
        contenders["torch"] = torch_step(batch)
    return compare(f"batch {batch}", contenders, work=batch * 32, unit="tokens/s", turns=7, min_seconds=0.2)


def main() -> None:
    write("plan", [call(), *[training(batch) for batch in BATCHES]])


if __name__ == "__main__":
    main()
