"""Variance swaps under Black-Scholes."""

from __future__ import annotations

from engine.pricing.analytic.method import Method
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import VarianceSwap


def variance_swap(spec: Spec) -> float:
    """Continuous: the mean variance. Discrete: each log return adds its variance and its squared drift."""
    product, market, end = spec.product, spec.market, spec.expiry
    assert isinstance(product, VarianceSwap)
    total, start = 0.0, 0.0
    for time in product.monitoring.times or (end,):
        variance = market.variance(0, start, time)
        total += variance
        if product.monitoring.kind == "discrete":
            total += (market.carry(0, start, time) - 0.5 * variance) ** 2
        start = time
    return market.discount(end) * product.notional * (total / end - product.strike)


def no_cash_dividends(spec: Spec) -> bool:
    return not spec.market.dividends


METHODS = (
    Method(
        VarianceSwap,
        BlackScholes,
        "closed form",
        "moments of normal log returns",
        variance_swap,
        no_cash_dividends,
    ),
)
