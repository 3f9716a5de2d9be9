"""Monte Carlo paths beside NumPy's: ``python -m bench.paths``.

The payoffs of an arithmetic Asian call over 252 steps of a geometric Brownian motion, summed over the paths,
in float64. Ours is a loop whose turn draws two normals from one block of the generator: one kernel. NumPy
draws by its ziggurat on one core, 4,096 paths at a time, which is its fastest way here. With Greeks, the same
kernel goes back through the steps for the derivatives by spot, drift, deviation and strike; NumPy's time
beside it is that of the price alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from math import pi, sqrt

from bench.pairing import OURS, compare, write
from engine import Graph, Tensor, float64, loop
from engine.devices.cpu import CpuDevice
from engine.random import GeneratorState, Sampler

PATHS, STEPS, BLOCK = 200_000, 252, 4096
RATE, DIVIDEND, VOLATILITY, SPOT, STRIKE = 0.05, 0.02, 0.2, 100.0, 100.0
NUMBERS = {
    "spot": SPOT,
    "drift": (RATE - DIVIDEND - VOLATILITY**2 / 2) / STEPS,
    "deviation": VOLATILITY / sqrt(STEPS),
    "strike": STRIKE,
}


def normals(draws: Sampler) -> tuple[Tensor, Tensor]:
    """Two normal numbers a path from one block of the generator (Box and Muller 1958)."""
    words = draws.bits(PATHS, 4)

    def uniform(high: int, low: int) -> Tensor:
        return (words[:, high] >> 5).astype(float64) * 2.0**-27 + (words[:, low] >> 6).astype(
            float64
        ) * 2.0**-53

    radius, angle = ((1.0 - uniform(0, 1)).log() * -2.0).sqrt(), uniform(2, 3) * (2.0 * pi)
    return radius * angle.cos(), radius * angle.sin()


def our_price(threads: int, greeks: bool) -> Callable[[], object]:
    graph = Graph()
    draws = graph.generator("draws")
    inputs = {name: graph.input(name, (), float64) for name in NUMBERS}
    with graph:
        spot, drift, deviation, strike = inputs.values()

        def two_steps(turn: Tensor, carries: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            level, total = carries
            one, two = normals(draws)
            first = level * (drift + deviation * one).exp()
            second = first * (drift + deviation * two).exp()
            return second, total + first + second

        start = spot.broadcast_to(PATHS)
        mean = loop(STEPS // 2, two_steps, (start, start * 0.0)).carries[1] * (1 / STEPS)
        payoff = (mean - strike).relu()
        value, square = payoff.sum(), (payoff * payoff).sum()
    targets = [value, square, *(graph.differentiate(value, list(inputs.values())) if greeks else [])]
    plan = graph.compile(targets, device=CpuDevice(threads))
    feeds = {name: Tensor(number, float64) for name, number in NUMBERS.items()}
    return lambda: plan.run({**feeds, "draws": GeneratorState(7, 0)})


def numpy_price() -> Callable[[], object]:
    import numpy as np

    def price() -> tuple[float, float]:
        random = np.random.Generator(np.random.PCG64(7))
        value = square = 0.0
        for first in range(0, PATHS, BLOCK):
            count = min(BLOCK, PATHS - first)
            level, total = np.full(count, SPOT), np.zeros(count)
            for _ in range(STEPS):
                step = random.standard_normal(count)
                step *= NUMBERS["deviation"]
                step += NUMBERS["drift"]
                level *= np.exp(step, out=step)
                total += level
            payoff = np.maximum(total / STEPS - STRIKE, 0.0)
            value, square = value + payoff.sum(), square + (payoff * payoff).sum()
        return value, square

    return price


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    rows = []
    for name, threads, greeks in [
        ("price, one core", 1, False),
        (f"price, {cores} cores", cores, False),
        ("price and 4 Greeks, one core", 1, True),
        (f"price and 4 Greeks, {cores} cores", cores, True),
    ]:
        contenders: dict[str, Callable[[], object]] = {OURS: our_price(threads, greeks)}
        if find_spec("numpy"):
            contenders["numpy"] = numpy_price()
        work = PATHS * STEPS / 1e6
        rows.append(compare(name, contenders, work=work, unit="M path-steps/s", turns=5, min_seconds=0.2))
    write("paths", rows)


if __name__ == "__main__":
    main()
