"""Options on two assets at expiry, and baskets by conditioning."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import exp, inf, log, sqrt

from engine.pricing.analytic.black import black, forward
from engine.pricing.analytic.method import Method
from engine.pricing.numerics.normal import cdf2, density
from engine.pricing.numerics.quadrature import integrate
from engine.pricing.numerics.roots import find_root
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import BestOf, Exchange, Spread, WorstOf

_FARTHEST = 9.0
_FINEST = 1e-9


def _covariance(spec: Spec, i: int = 0, j: int = 1) -> float:
    return spec.market.covariance(i, j, 0.0, spec.expiry)


def _ratio_deviation(spec: Spec) -> float:
    """The standard deviation of log(S1 / S2) at expiry."""
    return sqrt(max(_covariance(spec, 0, 0) + _covariance(spec, 1, 1) - 2.0 * _covariance(spec), 0.0))


def exchange(spec: Spec) -> float:
    value = black("call", forward(spec, 0), forward(spec, 1), _ratio_deviation(spec))
    return spec.market.discount(spec.expiry) * value


def two_assets(spec: Spec) -> bool:
    return spec.market.assets == 2


def call_on_minimum(spec: Spec, strike: float) -> float:
    """Undiscounted max(min(S1, S2) - strike, 0)."""
    f1, f2 = forward(spec, 0), forward(spec, 1)
    s1, s2, s = sqrt(_covariance(spec, 0, 0)), sqrt(_covariance(spec, 1, 1)), _ratio_deviation(spec)
    if f1 <= 0.0 or f2 <= 0.0:
        return 0.0
    if strike == 0.0:
        return f1 - black("call", f1, f2, s)
    if s <= 1e-12 * (s1 + s2) or s == 0.0:
        return black("call", min(f1, f2), strike, s1)
    covariance = _covariance(spec)
    d = log(f1 / f2) / s + 0.5 * s
    y1, y2 = _distance(f1, strike, s1), _distance(f2, strike, s2)
    rho = covariance / (s1 * s2) if s1 * s2 > 0.0 else 0.0
    rho1 = (s1 * s1 - covariance) / (s1 * s) if s1 > 0.0 else 0.0
    rho2 = (s2 * s2 - covariance) / (s2 * s) if s2 > 0.0 else 0.0
    first = f1 * cdf2(y1, -d, -rho1)
    second = f2 * cdf2(y2, d - s, -rho2)
    return first + second - strike * cdf2(y1 - s1, y2 - s2, rho)


def _distance(mean: float, strike: float, s: float) -> float:
    if s == 0.0:
        return inf if mean > strike else -inf
    return log(mean / strike) / s + 0.5 * s


def extreme_of_two(spec: Spec) -> float:
    """Stulz's formulas: the maximum is the sum less the minimum, a put comes from parity."""
    product = spec.product
    assert isinstance(product, BestOf | WorstOf)
    strike = product.strike
    value, mean = call_on_minimum(spec, strike), call_on_minimum(spec, 0.0)
    if isinstance(product, BestOf):
        f, s = (forward(spec, 0), forward(spec, 1)), (_covariance(spec, 0, 0), _covariance(spec, 1, 1))
        value = black("call", f[0], strike, sqrt(s[0])) + black("call", f[1], strike, sqrt(s[1])) - value
        mean = f[0] + f[1] - mean
    if product.type == "put":
        value += strike - mean
    return spec.market.discount(spec.expiry) * value


def spread(spec: Spec) -> float:
    """Given the second asset the first is lognormal: Black's formula under one integral (Pearson)."""
    product = spec.product
    assert isinstance(product, Spread)
    value = spread_call(spec, (1.0, -1.0), product.strike)
    if product.type == "put":
        value += product.strike - forward(spec, 0) + forward(spec, 1)
    return spec.market.discount(spec.expiry) * value


def spread_call(
    spec: Spec, weights: tuple[float, float], strike: float, order: tuple[int, int] = (0, 1)
) -> float:
    """Undiscounted max(w1 S_i + w2 S_j - strike, 0) for i, j = ``order``, w1 > 0 and any w2."""
    i, j = order
    f1, f2 = weights[0] * forward(spec, i), weights[1] * forward(spec, j)
    v1, s2 = _covariance(spec, i, i), sqrt(_covariance(spec, j, j))
    slope = _covariance(spec) / s2 if s2 > 0.0 else 0.0
    s = sqrt(max(v1 - slope * slope, 0.0))

    def mean(z: float) -> float:
        return f1 * exp(slope * z - 0.5 * slope * slope)

    def owed(z: float) -> float:
        return strike - f2 * exp(s2 * z - 0.5 * s2 * s2)

    def value(z: float) -> float:
        m, k = mean(z), owed(z)
        return density(z) * (black("call", m, k, s) if k > 0.0 else m - k)

    reach = _FARTHEST + max(abs(slope), s2)
    return integrate(value, kinked_cuts(lambda z: mean(z) - owed(z), owed, reach, s), 16)


def kinked_cuts(
    excess: Callable[[float], float], owed: Callable[[float], float], reach: float, s: float
) -> list[float]:
    """Cuts of [-reach, reach], finer about the points where the inner option is at the money.

    There its value bends over a width of about ``s``. Where ``owed`` changes sign it has a corner only.
    """
    coarse = [-reach + 2.0 * reach * i / 32.0 for i in range(33)]
    cuts = set(coarse)
    for left, right in pairwise(coarse):
        for f, finest in ((excess, max(s, _FINEST)), (owed, 1.0)):
            if (f(left) < 0.0) != (f(right) < 0.0):
                at, width = find_root(f, left, right), 0.4
                cuts.add(at)
                while width > finest:
                    cuts.update((at - width, at + width))
                    width *= 0.4
    return sorted(cut for cut in cuts if -reach <= cut <= reach)


METHODS = (
    Method(Exchange, BlackScholes, "closed form", "Margrabe (1978)", exchange),
    Method(WorstOf, BlackScholes, "closed form", "Stulz (1982)", extreme_of_two, two_assets),
    Method(BestOf, BlackScholes, "closed form", "Stulz (1982)", extreme_of_two, two_assets),
    Method(Spread, BlackScholes, "quadrature", "Pearson (1995): one integral over Black's formula", spread),
)
