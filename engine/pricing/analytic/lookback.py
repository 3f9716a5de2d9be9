"""Lookbacks: watched always, by the law of the maximum; on equal dates with floating strike, by Spitzer."""

from __future__ import annotations

from math import exp, isinf, sqrt

from engine.pricing.analytic.barrier import is_constant, log_moments
from engine.pricing.analytic.black import black, forward
from engine.pricing.analytic.method import Method
from engine.pricing.analytic.passage import log_ratio, mean_fall_back
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import Lookback

_LARGEST_VARIANCE = 200.0


def watched_always(spec: Spec) -> bool:
    assert isinstance(spec.product, Lookback)
    moderate = spec.market.variance(0, 0.0, spec.expiry) <= _LARGEST_VARIANCE
    return spec.product.monitoring.kind == "continuous" and is_constant(spec) and moderate


def extreme_so_far(spec: Spec) -> float | None:
    """The maximum or minimum known today; None where no date has passed and today does not count."""
    product = spec.product
    assert isinstance(product, Lookback)
    if not product.monitoring.include_t0:
        return product.extreme
    pick = max if product.of_maximum else min
    return spec.spot if product.extreme is None else pick(product.extreme, spec.spot)


def continuous(spec: Spec) -> float:
    """A European option with the extreme that counts as strike, and what paths fall back from the new one.

    For M the maximum and H the larger of strike and maximum so far, E max(M - H, 0) is E max(S_T - H, 0) and
    the integral of P(M > x, S_T < x) over x > H; likewise for what pays max(M, H) - S_T, and for the minimum.
    """
    product, market = spec.product, spec.market
    assert isinstance(product, Lookback)
    known = extreme_so_far(spec)
    assert known is not None
    drift, variance = log_moments(spec)
    pick, sign = (max, 1.0) if product.of_maximum else (min, -1.0)
    level = known if product.strike is None else pick(known, product.strike)
    distance = sign * log_ratio(level, spec.spot)
    back = 0.0 if isinf(distance) else spec.spot * mean_fall_back(distance, sign * drift, variance, sign)
    value = black(product.type, forward(spec), level, sqrt(variance)) + back
    if product.strike is not None:
        value += abs(level - product.strike)
    return market.discount(spec.expiry) * value


def settle(spec: Spec, known: float, level: float, excess: float) -> float:
    """The price from ``excess``, the mean by which the extreme passes ``level`` (the known extreme or K)."""
    product = spec.product
    assert isinstance(product, Lookback)
    if product.strike is not None:
        value = abs(level - product.strike) + excess
    else:
        mean = spec.spot * exp(spec.market.carry(0, 0.0, spec.expiry))
        value = known + excess - mean if product.of_maximum else mean - known + excess
    return spec.market.discount(spec.expiry) * max(value, 0.0)


def on_equal_dates_from_today(spec: Spec) -> bool:
    """Whether a floating strike looks back to today, or to the first date, over equal steps to expiry."""
    product = spec.product
    assert isinstance(product, Lookback)
    times = product.monitoring.times
    if times is None or product.strike is not None or not is_constant(spec):
        return False
    step = spec.expiry / len(times)
    equal = all(abs(time - step * (i + 1)) < 1e-12 * spec.expiry for i, time in enumerate(times))
    return equal and extreme_so_far(spec) in (None, spec.spot)


def spitzer(spec: Spec) -> float:
    """E exp(M_n) of a random walk's maximum from the laws of X_k alone: n c_n = sum_k a_k c_{n-k}."""
    product = spec.product
    assert isinstance(product, Lookback) and product.monitoring.times is not None
    n = len(product.monitoring.times)
    means = means_of_extremes(spec, n, product.of_maximum)
    if extreme_so_far(spec) is None:
        mean = spec.spot * exp(spec.market.carry(0, 0.0, spec.expiry / n)) * means[n - 1]
    else:
        mean = spec.spot * means[n]
    return settle(spec, spec.spot, spec.spot, mean - spec.spot if product.of_maximum else spec.spot - mean)


def means_of_extremes(spec: Spec, steps: int, maximum: bool) -> list[float]:
    """The mean of max (or min) of S_0, …, S_n over S_0 for n = 0 … ``steps`` equal steps to expiry."""
    step = spec.expiry / steps
    carry, variance = spec.market.carry(0, 0.0, step), spec.market.variance(0, 0.0, step)
    a = []
    for k in range(1, steps + 1):
        mean, s = exp(carry * k), sqrt(variance * k)
        a.append(1.0 + black("call", mean, 1.0, s) if maximum else 1.0 - black("put", mean, 1.0, s))
    c = [1.0]
    for n in range(1, steps + 1):
        c.append(sum(map(float.__mul__, a[:n], reversed(c))) / n)
    return c


METHODS = (
    Method(
        Lookback,
        BlackScholes,
        "quadrature",
        "law of the maximum: Goldman, Sosin, Gatto (1979), Conze, Viswanathan (1991)",
        continuous,
        watched_always,
    ),
    Method(
        Lookback,
        BlackScholes,
        "recursion",
        "Spitzer (1956): A combinatorial lemma and its application to probability theory",
        spitzer,
        on_equal_dates_from_today,
    ),
)
