"""Contracts with one decision or fixing before expiry: forward start, cliquet, chooser, compound."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, sqrt

from engine.pricing.analytic.black import black, distances
from engine.pricing.analytic.method import Method
from engine.pricing.numerics.normal import cdf, cdf2
from engine.pricing.numerics.roots import find_root
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import Chooser, Cliquet, Compound, ForwardStart

_LARGEST_VARIANCE = 100.0
_FARTHEST = 1e200
"""How far from the spot, in spots, the critical one is looked for: rates may take it as far."""


def no_cash_dividends(spec: Spec) -> bool:
    return not spec.market.dividends


def forward_start(spec: Spec) -> float:
    product, market, end = spec.product, spec.market, spec.expiry
    assert isinstance(product, ForwardStart)
    growth = exp(market.carry(0, product.start, end))
    s = sqrt(market.variance(0, product.start, end))
    at_start = spec.spot * exp(market.carry(0, 0.0, product.start))
    return market.discount(end) * at_start * black(product.type, growth, product.alpha, s)


def has_no_global_bounds(spec: Spec) -> bool:
    product = spec.product
    assert isinstance(product, Cliquet)
    return product.global_floor is None and product.global_cap is None and not spec.market.dividends


def cliquet(spec: Spec) -> float:
    """Each return R is paid as a call spread: floor + (R - floor)^+ - (R - cap)^+."""
    product, market = spec.product, spec.market
    assert isinstance(product, Cliquet)
    total, start = 0.0, 0.0
    for end in product.resets.times:
        growth, s = exp(market.carry(0, start, end)), sqrt(market.variance(0, start, end))
        floor = -1.0 if product.floor is None else max(product.floor, -1.0)
        total += floor + black("call", growth, 1.0 + floor, s)
        if product.cap is not None:
            total -= black("call", growth, 1.0 + product.cap, s)
        start = end
    return market.discount(spec.expiry) * product.notional * total


def chooser(spec: Spec) -> float:
    """Put-call parity at the choice: a call, and a put on the forward that ends at the choice."""
    product, market, end = spec.product, spec.market, spec.expiry
    assert isinstance(product, Chooser)
    mean = spec.spot * exp(market.carry(0, 0.0, end))
    call = black("call", mean, product.strike, sqrt(market.variance(0, 0.0, end)))
    put = black("put", mean, product.strike, sqrt(market.variance(0, 0.0, product.choice)))
    return market.discount(end) * (call + put)


def compound(spec: Spec) -> float:
    """Geske's formula; the daughter is worth the mother's strike where the spot is at its critical level."""
    product, market, end = spec.product, spec.market, spec.expiry
    assert isinstance(product, Compound)
    start, own, below = product.start, product.mother_strike, product.daughter_strike
    mother, daughter = (1.0 if kind == "call" else -1.0 for kind in (product.mother, product.daughter))
    variance, total = market.variance(0, 0.0, start), market.variance(0, 0.0, end)
    later = market.discount(end) / market.discount(start)
    growth, s = exp(market.carry(0, start, end)), sqrt(total - variance)
    mean = spec.spot * exp(market.carry(0, 0.0, end))

    def value(spot: float) -> float:
        return later * black(product.daughter, spot * growth, below, s) - own

    if variance == 0.0:
        return market.discount(start) * max(mother * value(mean / growth), 0.0)
    if total == variance or below == 0.0 or own == 0.0:
        kinked = _compound_of_payoff(product, mean, sqrt(total if own == 0.0 else variance), own / later)
        return market.discount(end) * kinked
    level = _critical(value, max(spec.spot, below), daughter)
    z1, z2 = distances(mean, below, sqrt(total))
    y1 = y2 = inf
    if level > 0.0:
        y1, y2 = distances(mean / growth, level, sqrt(variance))
    side, rho = mother * daughter, mother * sqrt(variance / total)
    held = daughter * mean * cdf2(daughter * z1, side * y1, rho)
    owed = daughter * below * cdf2(daughter * z2, side * y2, rho)
    paid = market.discount(start) * own * cdf(side * y2)
    return max(mother * (market.discount(end) * (held - owed) - paid), 0.0)


def compound_serves(spec: Spec) -> bool:
    """Within these variances the critical spot is a double."""
    return no_cash_dividends(spec) and spec.market.variance(0, 0.0, spec.expiry) <= _LARGEST_VARIANCE


def _compound_of_payoff(product: Compound, mean: float, s: float, own: float) -> float:
    """A mother on a daughter that is worth its payoff on a lognormal X already: options on X."""
    below = product.daughter_strike
    sign = 1.0 if product.daughter == "call" else -1.0
    beyond = black(product.daughter, mean, max(below + sign * own, 0.0), s)
    if product.mother == "call":
        return beyond
    return own - black(product.daughter, mean, below, s) + beyond


def _critical(value: Callable[[float], float], scale: float, daughter: float) -> float:
    """The spot at which ``value`` is 0; 0 where it is negative for every spot above 0 (or positive: call)."""
    low, high = scale, scale
    while daughter * value(high) < 0.0 and high < _FARTHEST * scale:
        low, high = low if high < 1e30 * scale else high, 2.0 * high
    while daughter * value(low) > 0.0:
        low *= 0.5
        if low < scale / _FARTHEST:
            return 0.0
    return find_root(value, low, high)


METHODS = (
    Method(
        ForwardStart,
        BlackScholes,
        "closed form",
        "Rubinstein (1990): Pay now, choose later",
        forward_start,
        no_cash_dividends,
    ),
    Method(
        Cliquet,
        BlackScholes,
        "closed form",
        "sum of forward-start call spreads",
        cliquet,
        has_no_global_bounds,
    ),
    Method(
        Chooser,
        BlackScholes,
        "closed form",
        "Rubinstein (1991): Options for the undecided",
        chooser,
        no_cash_dividends,
    ),
    Method(
        Compound,
        BlackScholes,
        "closed form",
        "Geske (1979): The valuation of compound options",
        compound,
        compound_serves,
    ),
)
