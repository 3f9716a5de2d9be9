"""An upper bound of early exercise: whoever knew the path, less what a hedge would have gained.

For any martingale M with M_0 = 0 the price is at most E[max_t (D_t h_t - M_t)] (Rogers, Monte Carlo valuation
of American options, 2002). Here M is the discounted value of the European option, known at every date.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from engine.core.dtype import float64
from engine.pricing.montecarlo.blocks import BLOCK, Row
from engine.pricing.montecarlo.draws import key_of, normal_cdf
from engine.pricing.montecarlo.estimate import Rule, means
from engine.pricing.montecarlo.factors import draw_factors
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.models import dynamics_of, needs_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import Path
from engine.pricing.montecarlo.settings import settings_of
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.result import Estimate
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec import products as p
from engine.record import Graph
from engine.tensor import Tensor, cat

STREAM = 3
MOST_PATHS = 2**16


def has_dual(spec: Spec) -> bool:
    """Whether the bound is computed: for options on one asset under Black-Scholes without cash dividends."""
    exercised = isinstance(spec.product, p.American | p.Bermudan)
    return exercised and isinstance(spec.model, BlackScholes) and not spec.market.dividends


def upper_bound(spec: Spec) -> Estimate:
    """The bound with its standard error, from paths of its own."""
    settings = settings_of(spec)
    needs = needs_of(spec)
    samples = min(settings.paths or MOST_PATHS, MOST_PATHS)
    graph = Graph()
    with graph:
        numbers = Numbers(graph, spec, float64)
        blocks = graph.symbol("blocks")
        zero = graph.input("zero", (blocks, 1), float64)
        factors = draw_factors(numbers, settings, blocks, needs)
        bound = _gap(dynamics_of(spec).simulate(numbers, factors, Shifts())) + zero
    plan = graph.compile([bound])
    feeds = numbers.feeds(spec, plan.names)
    rows: list[Row] = []
    counts: list[int] = []
    for block in range(ceil(samples / BLOCK)):
        found = []
        for part in range(needs.layout.parts):
            key = key_of(settings.seed, STREAM, block * needs.layout.parts + part)
            found += plan.run({**feeds, "key": key, "zero": Tensor.zeros(1, 1, dtype=float64)})
        counts.append(min(BLOCK, samples - block * BLOCK))
        own = cat(found, 1)[:, : counts[-1]]
        rows.append((float(own.sum()), float((own * own).sum())))
    mean = means(rows, counts, Rule(1, None))[0]
    return Estimate(samples, mean.value, mean.se)


def _gap(path: Path) -> Tensor:
    """max_t (D_t h_t - M_t) of each path, [blocks, paths]."""
    product: Any = path.numbers.spec.product
    column, number = path.numbers.column, path.numbers.scalar
    strike = number("strike", lambda spec: spec.product.strike)  # type: ignore[attr-defined]
    discounts = column("dual discounts", _at(lambda spec, time: spec.market.discount(time)))
    spots = path.spots()
    sign = 1.0 if product.type == "call" else -1.0
    gains = ((spots - strike) * sign).relu() * discounts
    hedge = _european(path, spots, strike, sign) * discounts
    start = _european_now(path, strike, sign)
    gap = (gains - hedge + start).max(1)
    if not isinstance(product, p.American):
        return gap
    return gap.maximum(((path.today() - strike) * sign).relu())


def _at(function: Callable[[Spec, float], float]) -> Callable[[Spec], list[float]]:
    return lambda spec: [function(spec, time) for time in grid_of(spec).contract]


def _european(path: Path, spots: Tensor, strike: Tensor, sign: float) -> Tensor:
    """Black's formula at each date for what is left up to the last one; there the payoff itself."""
    column = path.numbers.column
    total = column("dual variance", _at(lambda spec, t: max(spec.market.variance(0, t, _end(spec)), 1e-24)))
    carry = column("dual carry", _at(lambda spec, t: spec.market.carry(0, t, _end(spec))))
    discount = column(
        "dual rest", _at(lambda spec, t: spec.market.discount(_end(spec)) / spec.market.discount(t))
    )
    return _black(spots * carry.exp(), strike, total.sqrt(), sign) * discount


def _european_now(path: Path, strike: Tensor, sign: float) -> Tensor:
    number = path.numbers.scalar
    total = number("dual variance now", lambda spec: spec.market.variance(0, 0.0, _end(spec)))
    carry = number("dual carry now", lambda spec: spec.market.carry(0, 0.0, _end(spec)))
    discount = number("dual rest now", lambda spec: spec.market.discount(_end(spec)))
    return _black(path.today() * carry.exp(), strike, total.sqrt(), sign) * discount


def _end(spec: Spec) -> float:
    return grid_of(spec).contract[-1]


def _black(forward: Tensor, strike: Tensor, deviation: Tensor, sign: float) -> Tensor:
    d1 = (forward / strike).log() / deviation + deviation * 0.5
    d2 = d1 - deviation
    return (forward * normal_cdf(d1 * sign) - strike * normal_cdf(d2 * sign)) * sign
