"""Options on two assets at expiry, and baskets by conditioning."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import ceil, inf, log, sqrt

from engine.pricing.analytic.black import black, forward
from engine.pricing.analytic.method import Method
from engine.pricing.numerics.normal import cdf, cdf2, density
from engine.pricing.numerics.quadrature import integrate
from engine.pricing.numerics.roots import find_root
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import BestOf, Exchange, Spread, WorstOf

_FARTHEST = 9.0
_FINEST = 1e-9
_WIDEST = 0.7


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


def extreme_of_two(spec: Spec) -> float:
    """Stulz's formulas, each asset under its own measure, so that no large amounts cancel."""
    product = spec.product
    assert isinstance(product, BestOf | WorstOf)
    value = option_on_extreme(spec, product.type, product.strike, isinstance(product, BestOf))
    return spec.market.discount(spec.expiry) * max(value, 0.0)


def option_on_extreme(spec: Spec, kind: str, strike: float, of_larger: bool) -> float:
    """An undiscounted call or put on the larger or smaller of two assets."""
    f1, f2 = forward(spec, 0), forward(spec, 1)
    s1, s2, s = sqrt(_covariance(spec, 0, 0)), sqrt(_covariance(spec, 1, 1)), _ratio_deviation(spec)
    pick = max if of_larger else min
    if f1 <= 0.0 or f2 <= 0.0 or s <= 1e-12 * (s1 + s2):
        return black(kind, pick(f1, f2), strike, s1 if pick(f1, f2) == f1 else s2)
    if strike == 0.0:
        apart = black("call", f1, f2, s)
        return 0.0 if kind == "put" else f2 + apart if of_larger else f1 - apart
    covariance = _covariance(spec)
    d = log(f1 / f2) / s + 0.5 * s
    y1, y2 = _distance(f1, strike, s1), _distance(f2, strike, s2)
    rho = covariance / (s1 * s2) if s1 * s2 > 0.0 else 0.0
    rho1 = (s1 * s1 - covariance) / (s1 * s) if s1 > 0.0 else 0.0
    rho2 = (s2 * s2 - covariance) / (s2 * s) if s2 > 0.0 else 0.0
    side, wins = (1.0 if kind == "call" else -1.0), (1.0 if of_larger else -1.0)
    first = f1 * cdf2(side * y1, wins * d, side * wins * rho1)
    second = f2 * cdf2(side * y2, wins * (s - d), side * wins * rho2)
    x1, x2 = side * (y1 - s1), side * (y2 - s2)
    paid = cdf2(x1, x2, rho) if side != wins else cdf(x1) + cdf2(x2, -x1, -rho)
    return side * (first + second - strike * paid)


def _distance(mean: float, strike: float, s: float) -> float:
    if s == 0.0:
        return inf if mean > strike else -inf
    return log(mean / strike) / s + 0.5 * s


def spread(spec: Spec) -> float:
    """Given the second asset the first is lognormal: Black's formula under one integral (Pearson)."""
    product = spec.product
    assert isinstance(product, Spread)
    value = option_on_sum(spec, product.type, (1.0, -1.0), product.strike)
    return spec.market.discount(spec.expiry) * value


def option_on_sum(
    spec: Spec, kind: str, weights: tuple[float, float], strike: float, order: tuple[int, int] = (0, 1)
) -> float:
    """An undiscounted call or put on w1 S_i + w2 S_j for i, j = ``order``, w1 > 0 and any w2."""
    i, j = order
    f1, f2 = weights[0] * forward(spec, i), weights[1] * forward(spec, j)
    v1, s2 = _covariance(spec, i, i), sqrt(_covariance(spec, j, j))
    slope = _covariance(spec) / s2 if s2 > 0.0 else 0.0
    s = sqrt(max(v1 - slope * slope, 0.0))

    def mean(z: float) -> float:
        return f1 * density(z - slope)

    def owed(z: float) -> float:
        return strike * density(z) - f2 * density(z - s2)

    def value(z: float) -> float:  # Black's formula times the density, which would be 0 times infinity
        return black(kind, mean(z), owed(z), s)

    reach = _FARTHEST + max(abs(slope), s2)
    return integrate(value, kinked_cuts(lambda z: mean(z) - owed(z), owed, reach, s), 16)


def kinked_cuts(
    excess: Callable[[float], float], owed: Callable[[float], float], reach: float, s: float
) -> list[float]:
    """Cuts of [-reach, reach], finer about the points where the inner option is at the money.

    There its value bends over a width of about ``s``. Where ``owed`` changes sign it has a corner only.
    """
    count = max(32, ceil(2.0 * reach / _WIDEST))
    coarse = [-reach + 2.0 * reach * i / count for i in range(count + 1)]
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
