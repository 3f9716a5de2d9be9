"""Arithmetic Asians by recursion: the discounted mean of a sum of lognormals, to about 1e-9.

With returns R_i, w_0 + R_1 (w_1 + R_2 (w_2 + …)) is folded from the inside: B_k = Z_k + log(w_k +
exp(B_{k+1})), where Z_k = log R_k is normal (A. Carverhill and L. Clewlow, Flexible convolution, Risk 3,
1990). The recursion runs backwards on functions, so that the first step is Black's formula and everything
after it is smooth, and each mean over a normal is a trapezoidal sum, whose error falls faster than any power
of the step.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import ceil, exp, floor, log, pi, sqrt

from engine.pricing.analytic.black import black
from engine.pricing.analytic.method import Method, UnknownError
from engine.pricing.analytic.monitored import LARGEST_VARIANCE, moves_at_dates, reach_up
from engine.pricing.numerics.rows import Row, dot
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import Asian

_REACH = 8.3
_STEP = 0.6
_LARGEST_DEVIATION = 1.5
"""Beyond this log deviation over its life a continuous average is no limit of few steps to 1e-6."""
_LEVELS = (6, 12, 24, 48)
_ROUGH = 1e-7
"""How much of the price, or of the spot, the last extrapolation may change."""


def option_on_sum(
    kind: str, weights: list[float], means: list[float], variances: list[float], strike: float
) -> float:
    """A call or put on sum_k weights[k] X_k, X_0 = 1, log X_k - log X_{k-1} normal, independent.

    ``means[k - 1]`` and ``variances[k - 1]`` > 0 belong to the k-th step; weights are at least 0, the last
    above 0.
    """
    return _Folded(weights, means, variances).value(kind, strike)


class _Folded:
    """The recursion on a grid of equal steps, fine enough for the narrowest of the normals."""

    def __init__(self, weights: list[float], means: list[float], variances: list[float]) -> None:
        self._weights = weights
        self._means = means
        self._deviations = [sqrt(v) for v in variances]
        self._step = _STEP * min(self._deviations)
        self._rows: dict[tuple[float, float, float, int], Row] = {}

    def value(self, kind: str, strike: float) -> float:
        weights, last = self._weights, len(self._means)
        left = strike - weights[0]
        innermost = log(weights[last])
        growth, s = self._means[0], self._deviations[0]
        first = partial(_first, kind, growth + 0.5 * s * s, left, s)
        if last == 1:
            return first(innermost)
        windows = self._windows()
        start, end = windows[2]
        values = [first(self._fold(1, j)) for j in range(start, end + 1)]
        for k in range(2, last):
            new_start, new_end = windows[k + 1]
            values = [self._apply(k, j, start, values) for j in range(new_start, new_end + 1)]
            start = new_start
        return dot(self._row(last, innermost), start, values)

    def _fold(self, k: int, j: int) -> float:
        return _log_sum(self._weights[k], j * self._step)

    def _apply(self, k: int, j: int, start: int, values: list[float]) -> float:
        """The mean of the last function over the k-th normal, from grid point ``j`` of what lies inside."""
        key = (self._weights[k], self._means[k - 1], self._deviations[k - 1], j)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._row(k, self._fold(k, j))
        return dot(row, start, values)

    def _row(self, k: int, at: float) -> Row:
        """First grid point and weights of the trapezoidal mean over N(at + mean, deviation^2)."""
        s, h = self._deviations[k - 1], self._step
        centre = at + self._means[k - 1]
        first, last = ceil((centre - _REACH * s) / h), floor((centre + reach_up(_REACH, s) * s) / h)
        scale, factor = h / (s * sqrt(2.0 * pi)), -0.5 / (s * s)
        return first, [scale * exp(factor * (i * h - centre) ** 2) for i in range(first, last + 1)]

    def _windows(self) -> dict[int, tuple[int, int]]:
        """For k = 2 … m the grid points between which B_k lies but for about 1e-15.

        Its mean and deviation come from the recursion made linear; large sums have a longer tail than that.
        """
        last = len(self._means)
        centre = log(self._weights[last]) + self._means[last - 1]
        variance = self._deviations[last - 1] ** 2
        windows = {}
        for k in range(last, 1, -1):
            s = sqrt(variance)
            reach = _REACH * s
            low, high = centre - reach, centre + reach * (1.0 + 0.08 * reach)
            windows[k] = (floor(low / self._step), ceil(high / self._step))
            whole = _log_sum(self._weights[k - 1], centre)
            share = exp(centre - whole)
            centre = self._means[k - 2] + whole
            variance = self._deviations[k - 2] ** 2 + share * share * variance
        return windows


def _first(kind: str, growth: float, strike: float, s: float, inner: float) -> float:
    return black(kind, exp(inner + growth), strike, s)


def _log_sum(weight: float, x: float) -> float:
    return x if weight == 0.0 else log(weight + exp(x))


# ---- contracts


def serves_discrete(spec: Spec) -> bool:
    """Fixings at dates between which the spot moves; a floating strike only without past fixings."""
    product, market = spec.product, spec.market
    assert isinstance(product, Asian)
    average = product.averaging
    if average.kind != "arithmetic" or average.times is None or market.dividends:
        return False
    times = [t for t in average.times if t > 0.0]
    if market.variance(0, 0.0, spec.expiry) > LARGEST_VARIANCE or not moves_at_dates(spec, times):
        return False
    return product.strike is not None or average.past_sum == 0.0


def discrete(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, Asian) and product.averaging.times is not None
    times = [t for t in product.averaging.times if t > 0.0]
    weight = 1.0 / product.averaging.count
    at_0 = weight if product.averaging.times[0] == 0.0 else 0.0
    value = _price(spec, times, [at_0, *(weight,) * len(times)], product.averaging.past_sum * weight)
    return max(value, 0.0)


def _steps(spec: Spec, times: list[float]) -> list[tuple[float, float]]:
    """Mean and variance of the log returns between times."""
    steps = []
    for start, end in pairwise(times):
        variance = spec.market.variance(0, start, end)
        steps.append((spec.market.carry(0, start, end) - 0.5 * variance, variance))
    return steps


def _price(spec: Spec, times: list[float], weights: list[float], past: float) -> float:
    """``weights`` belong to today and to ``times``."""
    product, market = spec.product, spec.market
    assert isinstance(product, Asian)
    discount = market.discount(spec.expiry)
    if product.strike is None:
        return discount * _floating(spec, times, weights)
    strike = (product.strike - past) / spec.spot
    mean = _mean(spec, times, weights)
    return discount * spec.spot * _option(product.type, weights, _steps(spec, [0.0, *times]), strike, mean)


def _mean(spec: Spec, times: list[float], weights: list[float]) -> float:
    """The mean of the sum, in spots of today."""
    return sum(w * exp(spec.market.carry(0, 0.0, t)) for w, t in zip(weights, [0.0, *times], strict=True))


def _option(
    kind: str, weights: list[float], steps: list[tuple[float, float]], strike: float, mean: float
) -> float:
    """An option on the sum; a put in the money is the call, less the forward."""
    if strike <= weights[0] or not steps:
        return black(kind, mean, strike, 0.0)
    if kind == "put" and strike >= mean:
        return option_on_sum("call", weights, *_columns(steps), strike) - mean + strike
    return option_on_sum(kind, weights, *_columns(steps), strike)


def _floating(spec: Spec, times: list[float], weights: list[float]) -> float:
    """With S_T as unit of account the average over S_T is such a sum too, run backwards from expiry."""
    product, market, end = spec.product, spec.market, spec.expiry
    assert isinstance(product, Asian)
    dates = [0.0, *times] if times[-1] == end else [0.0, *times, end]
    backwards = list(reversed(weights if times[-1] == end else [*weights, 0.0]))
    steps = [(-mean - variance, variance) for mean, variance in reversed(_steps(spec, dates))]
    while backwards[-1] == 0.0:
        backwards.pop()
        steps.pop()
    final = spec.spot * exp(market.carry(0, 0.0, end))
    mean = _mean(spec, times, weights) * spec.spot / final
    return final * _option("call" if product.type == "put" else "put", backwards, steps, 1.0, mean)


def _columns(steps: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [mean for mean, _ in steps], [variance for _, variance in steps]


def serves_continuous(spec: Spec) -> bool:
    """An average over [0, T] of a spot that moves all the time."""
    product, market = spec.product, spec.market
    assert isinstance(product, Asian)
    average = product.averaging
    if average.kind != "arithmetic" or average.times is not None or market.dividends:
        return False
    times = [spec.expiry * i / _LEVELS[-1] for i in range(1, _LEVELS[-1] + 1)]
    if market.variance(0, 0.0, spec.expiry) > _LARGEST_DEVIATION**2:
        return False
    return moves_at_dates(spec, times) and (product.strike is not None or average.past_sum == 0.0)


def continuous(spec: Spec) -> float:
    """The limit of trapezoidal averages over 6, 12, 24, 48 steps, by Richardson's extrapolation."""
    product, end = spec.product, spec.expiry
    assert isinstance(product, Asian)
    average = product.averaging
    whole = average.past_count + end
    values = []
    for n in _LEVELS:
        weight = end / (n * whole)
        weights = [0.5 * weight, *(weight,) * (n - 1), 0.5 * weight]
        times = [end * i / n for i in range(1, n + 1)]
        values.append(_price(spec, times, weights, average.past_sum / whole))
    limit, nearest = _richardson(values)
    if abs(limit - nearest) > _ROUGH * max(limit, spec.spot):
        raise UnknownError("averages over few steps are too far from a continuous one")
    return max(limit, 0.0)


def _richardson(values: list[float]) -> tuple[float, float]:
    """The limit of values at steps h, h/2 … whose error is a series in h^2, h^3, …; the one before it."""
    power, nearest = 2.0, values[-1]
    while len(values) > 1:
        factor, nearest = 2.0**power, values[-1]
        values = [(factor * fine - coarse) / (factor - 1.0) for coarse, fine in pairwise(values)]
        power += 1.0
    return values[0], nearest


METHODS = (
    Method(
        Asian,
        BlackScholes,
        "recursion",
        "Carverhill, Clewlow (1990), run backwards",
        discrete,
        serves_discrete,
        rounding=1e-13,
    ),
    Method(
        Asian,
        BlackScholes,
        "recursion",
        "Carverhill, Clewlow (1990), extrapolated to a continuous average",
        continuous,
        serves_continuous,
        step=0.03,
        rounding=1e-10,
    ),
)
