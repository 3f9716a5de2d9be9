"""What a simulation looks like: a fan of paths, and a histogram of payoffs, from its first 4,096 samples."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

from engine.core.dtype import float64
from engine.pricing.montecarlo.blocks import BLOCK
from engine.pricing.montecarlo.draws import key_of
from engine.pricing.montecarlo.factors import draw_factors
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.models import dynamics_of, needs_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.payoffs import payoff
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import Simulation, Spec
from engine.record import Graph
from engine.tensor import Tensor, cat

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_DATES = 60
BINS = 40
LINES = 12


def charts_of(spec: Spec) -> dict[str, Any]:
    """``fan``: quantiles of the first asset and some paths; histograms of ``payoffs`` and its last value."""
    seed = spec.simulation.seed if spec.simulation else 0
    steps = spec.simulation.steps if spec.simulation else None
    spec = replace(spec, simulation=Simulation(paths=BLOCK, seed=seed, steps=steps), greeks=())
    spots, paid = _first_block(spec)
    times = grid_of(spec).contract
    shown = sorted({round(k * (len(times) - 1) / min(MOST_DATES, len(times))) for k in range(MOST_DATES + 1)})
    shown = [place for place in shown if place < len(times)]
    rows = [sorted(spots[place]) for place in shown]
    fan = {
        "times": [0.0, *[times[place] for place in shown]],
        "quantiles": {
            f"{q:g}": [spec.spot, *[row[min(int(q * len(row)), len(row) - 1)] for row in rows]]
            for q in QUANTILES
        },
        "paths": [[spec.spot, *[spots[place][k] for place in shown]] for k in range(LINES)],
    }
    return {"fan": fan, "payoffs": _histogram(paid), "terminal": _histogram(spots[-1]), "paths": BLOCK}


def _first_block(spec: Spec) -> tuple[list[list[float]], list[float]]:
    graph = Graph()
    with graph:
        numbers = Numbers(graph, spec, float64)
        blocks = graph.symbol("blocks")
        zero = graph.input("zero", (blocks, 1), float64)
        assert spec.simulation is not None
        factors = draw_factors(numbers, spec.simulation, blocks, needs_of(spec))
        path = dynamics_of(spec).simulate(numbers, factors, Shifts())
        targets = [path.spots(0), payoff(path) + zero]
    feeds = numbers.feeds(spec, graph.names(targets))
    found: list[tuple[Tensor, Tensor]] = []
    for part in range(needs_of(spec).layout.parts):
        own = {"zero": Tensor.zeros(1, 1, dtype=float64), "key": key_of(spec.simulation.seed, 0, part)}
        found.append(graph.interpret(targets, {**feeds, **own}))
    spots, paid = (cat(list(parts), -1) for parts in zip(*found, strict=True))
    return spots.tolist()[0], paid.tolist()[0]


def _histogram(values: list[float]) -> dict[str, Any]:
    """Equal bins from the smallest to the largest value, the far tail in the last one."""
    mean = sum(values) / len(values)
    deviation = sqrt(sum((x - mean) ** 2 for x in values) / len(values))
    low, high = min(values), min(max(values), mean + 5.0 * deviation)
    width = (high - low) / BINS
    counts = [0] * BINS
    for x in values:
        counts[min(int((x - low) / width), BINS - 1) if width > 0.0 else 0] += 1
    return {"low": low, "high": high, "counts": counts}
