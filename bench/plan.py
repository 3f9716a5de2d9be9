"""Plans: what a run costs beside its kernels, and what planning costs: ``python -m bench.plan``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import engine
from bench.pairing import OURS, Row, compare, write
from bench.train_step import new_model, windows
from engine.compiler.binding import Binding
from engine.compiler.blueprint import draw
from engine.compiler.plan import Plan
from engine.compiler.plan_cache import PlanCache
from engine.core import build
from engine.core.dtype import float32
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.device import current_device
from engine.nn import CrossEntropyLoss
from engine.optim import Adam

SMALL = 8  # elements, so that only the call is timed
BATCH = 8


def device() -> CpuDevice:
    found = current_device()
    assert isinstance(found, CpuDevice)
    return found


def call() -> Row:
    """One run of a plan of one kernel, beside the eager primitive."""
    x, y = (build.input((SMALL,), float32) for _ in range(2))
    plan = Plan([x, y], [build.add(x, y)], device())
    value = Array.from_list([1.0] * SMALL, (SMALL,), float32)
    feeds = {x: value, y: value}
    contenders: dict[str, Callable[[], object]] = {
        OURS: lambda: plan.run(feeds),
        "eager": lambda: device().run("add", (), (value, value), (SMALL,), float32),
    }
    if find_spec("torch"):
        import torch

        one = torch.ones(SMALL)
        contenders["torch"] = lambda: one + one
    return compare("a call", contenders, work=1e-6, unit="M calls/s")


def training_plan() -> Plan:
    """The plan of one training step of the 550,977-parameter GPT."""
    model, loss_of = new_model(), CrossEntropyLoss()
    optimizer = Adam(model.parameters(), lr=1e-3)

    @engine.compile
    def step(tokens: engine.Tensor, targets: engine.Tensor) -> engine.Tensor:
        loss = loss_of(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    rows = windows().batch(0, BATCH)
    step(engine.Tensor(rows.tokens), engine.Tensor(rows.targets))
    plan: Plan = step.plans[0]
    return plan


def planning(folder: Path) -> list[Row]:
    """The blueprint of a training step from the cache beside making it, and binding it."""
    plan = training_plan()
    cache = PlanCache(folder, "bench")
    sizes = dict.fromkeys(plan.symbols, BATCH)
    contenders: dict[str, Callable[[], object]] = {
        OURS: lambda: cache.blueprint(plan.targets, plan.states),
        "without the cache": lambda: draw(plan.targets, plan.states),
    }
    bind: dict[str, Callable[[], object]] = {
        OURS: lambda: Binding(plan.blueprint, plan.inputs, device(), sizes)
    }
    return [
        compare("blueprint of a training step", contenders, work=1, unit="blueprints/s"),
        compare("binding of a training step", bind, work=1, unit="bindings/s"),
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write("plan", [call(), *planning(Path(folder))])


if __name__ == "__main__":
    main()
