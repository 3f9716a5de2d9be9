"""Geometric means of lognormals are lognormal: geometric Asians and baskets."""

from __future__ import annotations

from math import exp, log, sqrt

from engine.pricing.analytic.black import black
from engine.pricing.analytic.method import Method
from engine.pricing.numerics.quadrature import integrate
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import Asian, Basket


def is_geometric(spec: Spec) -> bool:
    product = spec.product
    assert isinstance(product, Asian)
    return product.averaging.kind == "geometric" and spec.spot > 0.0 and not spec.market.dividends


def asian(spec: Spec) -> float:
    """A fixed strike is Black's formula; a floating one is Margrabe's, on S_T and the mean."""
    product, market, end = spec.product, spec.market, spec.expiry
    assert isinstance(product, Asian)
    mean, variance, covariance = _log_mean(spec)
    average = exp(mean + 0.5 * variance)
    if product.strike is not None:
        return market.discount(end) * black(product.type, average, product.strike, sqrt(variance))
    final = spec.spot * exp(market.carry(0, 0.0, end))
    spread = market.variance(0, 0.0, end) + variance - 2.0 * covariance
    return market.discount(end) * black(product.type, final, average, sqrt(max(spread, 0.0)))


def _log_mean(spec: Spec) -> tuple[float, float, float]:
    """Mean and variance of the logarithm of the average, and its covariance with that of S_T.

    ``var sum = sum_j v_j (2 (n - j) + 1)`` over fixings in order, for v_j the variance up to fixing j.
    """
    product, market = spec.product, spec.market
    assert isinstance(product, Asian)
    average = product.averaging
    if average.times is None:
        return _log_mean_of_integral(spec)
    n = len(average.times)
    variances = [market.variance(0, 0.0, time) for time in average.times]
    mean = sum(market.carry(0, 0.0, t) - 0.5 * v for t, v in zip(average.times, variances, strict=True))
    variance = sum(v * (2 * (n - j) - 1) for j, v in enumerate(variances))
    count = average.count
    total = average.past_sum + n * log(spec.spot) + mean
    return total / count, variance / (count * count), sum(variances) / count


def _log_mean_of_integral(spec: Spec) -> tuple[float, float, float]:
    """The same for the exponential of the mean of log S over [0, T], and the past where there is one."""
    product, market, end = spec.product, spec.market, spec.expiry
    assert isinstance(product, Asian)
    average = product.averaging
    cuts = {0.0, end}
    for curve in (market.rate, market.yields[0], market.vols[0]):
        cuts.update(time for time in curve.until if time < end)
    ordered = sorted(cuts)

    def log_drift(time: float) -> float:
        return market.carry(0, 0.0, time) - 0.5 * market.variance(0, 0.0, time)

    drift = integrate(log_drift, ordered, 4)
    variance = integrate(lambda time: 2.0 * (end - time) * market.variance(0, 0.0, time), ordered, 4)
    covariance = integrate(lambda time: market.variance(0, 0.0, time), ordered, 4)
    whole = average.past_count + end
    total = average.past_sum + end * log(spec.spot) + drift
    return total / whole, variance / (whole * whole), covariance / whole


def is_geometric_basket(spec: Spec) -> bool:
    product = spec.product
    assert isinstance(product, Basket)
    return product.mean == "geometric" and min(spec.market.spots) > 0.0 and not spec.market.dividends


def basket(spec: Spec) -> float:
    product, market, end = spec.product, spec.market, spec.expiry
    assert isinstance(product, Basket)
    weights = weights_of(spec)
    n = len(weights)
    mean = sum(
        weight * (log(market.spots[i]) + market.carry(i, 0.0, end) - 0.5 * market.variance(i, 0.0, end))
        for i, weight in enumerate(weights)
    )
    variance = sum(
        weights[i] * weights[j] * market.covariance(i, j, 0.0, end) for i in range(n) for j in range(n)
    )
    value = black(product.type, exp(mean + 0.5 * variance), product.strike, sqrt(max(variance, 0.0)))
    return market.discount(end) * value


def weights_of(spec: Spec) -> tuple[float, ...]:
    """The weights of a basket: given, or 1/n."""
    product = spec.product
    assert isinstance(product, Basket)
    n = spec.market.assets
    return product.weights if product.weights is not None else (1.0 / n,) * n


METHODS = (
    Method(Asian, BlackScholes, "closed form", "Kemna, Vorst (1990); any fixing times", asian, is_geometric),
    Method(
        Basket,
        BlackScholes,
        "closed form",
        "lognormal law of the geometric mean",
        basket,
        is_geometric_basket,
    ),
)
