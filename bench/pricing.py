"""Simulated prices beside QuantLib, NumPy and torch: ``python -m bench.pricing``.

Each contender gives a price and its standard error from the same number of paths in float64. QuantLib's
engines use one core; NumPy works in blocks of 4,096 paths that stay in the caches; torch takes the same
blocks on one core. Rows say on how many cores ours runs. "Greeks" compares the price with all first-order
Greeks (peer: the price alone), so its ratio is below 1. "to an error of 1e-3" and "closed form" have no peer.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from bench.pairing import OURS, Row, compare, write
from engine.devices.cpu.device import CpuDevice
from engine.devices.device import use_device
from engine.pricing import price
from engine.pricing.montecarlo.run import simulated
from engine.pricing.spec import read_spec

PATHS, STEPS = 100_000, 252
MANY = 10_000_000
FEW = 20_000  # of Heston's paths
BLOCK = 4096
S, K, T, R, VOL, LEVEL = 100.0, 100.0, 1.0, 0.05, 0.2, 130.0
HESTON = {"v0": 0.04, "kappa": 1.5, "theta": 0.04, "xi": 0.5, "rho": -0.7}
CALL: dict[str, Any] = {"type": "call", "S": S, "K": K, "T": T, "r": R, "vol": VOL}
ASIAN = {**CALL, "instrument": "asian", "averaging": {"kind": "arithmetic", "n": STEPS}}
BARRIER = {
    **CALL,
    "instrument": "barrier",
    "barrier": {"level": LEVEL, "type": "up-out"},
    "monitoring": {"kind": "discrete", "n": STEPS},
}
EUROPEAN = {**CALL, "instrument": "european"}
FIRST = ["delta", "vega", "rho", "theta", "div_rho"]

Call = Callable[[], object]


def ours(request: dict[str, Any], greeks: list[str] | None = None, **mc: Any) -> Call:
    """Our simulation, without a control so that paths are compared with paths."""
    settings = {"seed": 1, "control_variate": "none", **mc}
    spec = read_spec({**request, "greeks": greeks or [], "mc": settings})
    return lambda: simulated(spec)


# ---- NumPy and torch


def numpy_blocks(paths: int, steps: int, payoff: Callable[[Any], Any]) -> Call:
    """Price and error from blocks of 4,096 paths."""
    dt = T / steps

    def run() -> tuple[float, float]:
        generator = np.random.Generator(np.random.PCG64(1))
        total = squares = 0.0
        for first in range(0, paths, BLOCK):
            x = generator.standard_normal((steps, min(BLOCK, paths - first)))
            x *= VOL * math.sqrt(dt)
            x += (R - 0.5 * VOL * VOL) * dt
            np.cumsum(x, axis=0, out=x)
            np.exp(x, out=x)
            y = payoff(x)
            total += y.sum()
            squares += (y * y).sum()
        return _estimate(total, squares, paths)

    return run


def torch_blocks(paths: int, steps: int, payoff: Callable[[Any], Any]) -> Call:
    import torch

    dt = T / steps

    def run() -> tuple[float, float]:
        generator = torch.Generator().manual_seed(1)
        total = squares = 0.0
        for first in range(0, paths, BLOCK):
            shape = (steps, min(BLOCK, paths - first))
            x = torch.randn(shape, dtype=torch.float64, generator=generator)
            x.mul_(VOL * math.sqrt(dt)).add_((R - 0.5 * VOL * VOL) * dt)
            x = x.cumsum(0).exp_()
            y = payoff(x)
            total += float(y.sum())
            squares += float((y * y).sum())
        return _estimate(total, squares, paths)

    return run


def _estimate(total: float, squares: float, paths: int) -> tuple[float, float]:
    mean = total / paths
    discount = math.exp(-R * T)
    return discount * mean, discount * math.sqrt(max(squares / paths - mean * mean, 0.0) / (paths - 1))


def _asian(x: Any) -> Any:
    return (S * x.mean(0) - K).clip(0.0, None)


def _barrier(x: Any) -> Any:
    top = x.max(0)
    top = top if isinstance(top, np.ndarray) else top.values
    return (S * x[-1] - K).clip(0.0, None) * (S * top < LEVEL)


def _terminal(x: Any) -> Any:
    return (S * x[-1] - K).clip(0.0, None)


# ---- QuantLib


def quantlib(build: Callable[[Any, Any], Any]) -> Call:
    """NPV and error estimate of an option that is built anew, so that nothing is remembered."""
    import QuantLib as ql  # noqa: N813

    today = ql.Date(2, 1, 2026)
    ql.Settings.instance().evaluationDate = today

    def run() -> tuple[float, float]:
        option = build(ql, today)
        return option.NPV(), option.errorEstimate()

    return run


def _process(ql: Any, today: Any) -> Any:
    days = ql.Actual365Fixed()
    flat = [ql.YieldTermStructureHandle(ql.FlatForward(today, rate, days)) for rate in (0.0, R)]
    vol = ql.BlackVolTermStructureHandle(ql.BlackConstantVol(today, ql.NullCalendar(), VOL, days))
    return ql.BlackScholesMertonProcess(ql.QuoteHandle(ql.SimpleQuote(S)), *flat, vol)


def _payoff(ql: Any) -> Any:
    return ql.PlainVanillaPayoff(ql.Option.Call, K)


def _expiry(ql: Any, today: Any) -> Any:
    return ql.EuropeanExercise(today + 365)


def ql_asian(ql: Any, today: Any) -> Any:
    dates = [today + round(365 * (i + 1) / STEPS) for i in range(STEPS)]
    option = ql.DiscreteAveragingAsianOption(
        ql.Average().Arithmetic, 0.0, 0, dates, _payoff(ql), _expiry(ql, today)
    )
    engine = ql.MCDiscreteArithmeticAPEngine(
        _process(ql, today), "PseudoRandom", controlVariate=False, requiredSamples=PATHS, seed=1
    )
    option.setPricingEngine(engine)
    return option


def ql_barrier(ql: Any, today: Any) -> Any:
    option = ql.BarrierOption(ql.Barrier.UpOut, LEVEL, 0.0, _payoff(ql), _expiry(ql, today))
    engine = ql.MCBarrierEngine(
        _process(ql, today), "PseudoRandom", timeSteps=STEPS, requiredSamples=PATHS, isBiased=True, seed=1
    )
    option.setPricingEngine(engine)
    return option


def ql_heston(ql: Any, today: Any) -> Any:
    days = ql.Actual365Fixed()
    flat = [ql.YieldTermStructureHandle(ql.FlatForward(today, rate, days)) for rate in (R, 0.0)]
    spot = ql.QuoteHandle(ql.SimpleQuote(S))
    parameters = [HESTON[name] for name in ("v0", "kappa", "theta", "xi", "rho")]
    process = ql.HestonProcess(*flat, spot, *parameters, ql.HestonProcess.QuadraticExponentialMartingale)
    option = ql.VanillaOption(_payoff(ql), _expiry(ql, today))
    engine = ql.MCEuropeanHestonEngine(process, "PseudoRandom", timeSteps=STEPS, requiredSamples=FEW, seed=1)
    option.setPricingEngine(engine)
    return option


# ---- rows


def rows(threads: int) -> list[Row]:
    """All comparisons on a number of cores of ours."""
    cores = f"{threads} core{'s' if threads > 1 else ''}"
    steps = PATHS * STEPS / 1e6
    unit = "M path-steps/s"
    heston = {"instrument": "european", "type": "call", "S": S, "K": K, "T": T, "r": R}
    heston["model"] = {"name": "heston", "params": HESTON}

    def row(name: str, contenders: dict[str, Call | None], work: float, unit: str = unit) -> Row:
        there = {who: call for who, call in contenders.items() if call is not None}
        return compare(f"{name}, {cores}", there, work=work, unit=unit, turns=3, min_seconds=0.1)

    return [
        row(
            f"Asian {PATHS // 1000}k × {STEPS}",
            {
                OURS: ours(ASIAN, paths=PATHS),
                "QuantLib": _if_there("QuantLib", lambda: quantlib(ql_asian)),
                "NumPy": numpy_blocks(PATHS, STEPS, _asian),
                "torch": _if_there("torch", lambda: torch_blocks(PATHS, STEPS, _asian)),
            },
            steps,
        ),
        row(
            f"barrier {PATHS // 1000}k × {STEPS}",
            {
                OURS: ours(BARRIER, paths=PATHS),
                "QuantLib": _if_there("QuantLib", lambda: quantlib(ql_barrier)),
                "NumPy": numpy_blocks(PATHS, STEPS, _barrier),
                "torch": _if_there("torch", lambda: torch_blocks(PATHS, STEPS, _barrier)),
            },
            steps,
        ),
        row(
            f"European {MANY // 1_000_000}M",
            {OURS: ours(EUROPEAN, paths=MANY), "NumPy": numpy_blocks(MANY, 1, _terminal)},
            MANY / 1e6,
            "M paths/s",
        ),
        row(
            f"Heston QE-M {FEW // 1000}k × {STEPS}",
            {
                OURS: ours(heston, paths=FEW, steps=STEPS),
                "QuantLib": _if_there("QuantLib", lambda: quantlib(ql_heston)),
            },
            FEW * STEPS / 1e6,
        ),
        row(
            f"Greeks, Asian {PATHS // 1000}k × 50",
            {
                OURS: ours({**ASIAN, "averaging": {"kind": "arithmetic", "n": 50}}, FIRST, paths=PATHS),
                "price alone": ours({**ASIAN, "averaging": {"kind": "arithmetic", "n": 50}}, paths=PATHS),
            },
            PATHS * 50 / 1e6,
        ),
        row(
            "Asian × 50 to an error of 1e-3",
            {
                OURS: ours(
                    {**ASIAN, "averaging": {"kind": "arithmetic", "n": 50}},
                    target_se=1e-3,
                    control_variate="auto",
                )
            },
            1.0,
            "prices/s",
        ),
        row("closed form, European", {OURS: _exact()}, 1.0, "prices/s"),
    ]


def _if_there(package: str, build: Callable[[], Call]) -> Call | None:
    return build() if find_spec(package) else None


def _exact() -> Call:
    spec = read_spec({**EUROPEAN, "greeks": FIRST})
    return lambda: price(spec)


def main() -> None:
    if find_spec("torch"):
        import torch

        torch.set_num_threads(1)
    cores = len(os.sched_getaffinity(0))
    found: list[Row] = []
    for threads in sorted({1, cores}):
        with use_device(CpuDevice(threads)):
            found += rows(threads)
    write("pricing", found)


if __name__ == "__main__":
    main()
