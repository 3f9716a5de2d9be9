"""The volatility inside Black's and Bachelier's formulas, to the accuracy that the price allows.

Both time values are integrals over the deviation u in (0, s) of log-concave densities (their vegas), so their
logarithms are concave in s, and Newton's method on the logarithm converges from one side, from any start on
that side. The integrals are sums of positive terms: they keep their relative accuracy however small they are.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import exp, inf, log, pi, sqrt

from engine.pricing.numerics.normal import cdf, density
from engine.pricing.numerics.quadrature import legendre

_RULE = legendre(12)
_ROOT_2PI = sqrt(2.0 * pi)
_FARTHEST = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0)
_MOST_STEPS = 200


def time_value(x: float, s: float) -> float:
    """Black's value, over sqrt(F K), of an option out of the money by x = log(F / K) <= 0: a call's.

    The integral over u in (0, s) of exp(-x^2 / (2 u^2) - u^2 / 8) / sqrt(2 pi).
    """
    return _integral(x, s, 0.125)


def _integral(x: float, s: float, decay: float) -> float:
    """The integral over u in (0, s) of exp(-x^2 / (2 u^2) - decay u^2) / sqrt(2 pi)."""
    h = abs(x) / s
    if h < 2.0:
        total, right = 0.0, s
        for _ in range(60):
            half = 0.25 * right
            total += half * sum(
                w * exp(-0.5 * (x / u) ** 2 - decay * u * u)
                for u, w in ((half * (3.0 + node), w) for node, w in _RULE)
            )
            right *= 0.5
            if right < 1e-17 * s or 0.5 * (x / right) ** 2 > 45.0 + h * h:
                break
        return total / _ROOT_2PI
    total = 0.0
    for left, right in pairwise(_FARTHEST):
        half, middle = 0.5 * (right - left), 0.5 * (right + left)
        for node, w in _RULE:
            y = middle + half * node
            square = 2.0 * y + h * h
            total += half * w * exp(-y - decay * x * x / square) * square**-1.5
    return abs(x) * exp(-0.5 * h * h) * total / _ROOT_2PI


def black_deviation(x: float, value: float) -> float:
    """The s with ``time_value(x, s) == value``, for x <= 0 and 0 < value < exp(x / 2).

    Values beyond half of the bound are solved from above, on what is missing to it.
    """
    bound = exp(0.5 * x)
    centre = sqrt(-2.0 * x)
    if value <= 0.5 * bound:
        start = _ROOT_2PI * value
        if centre > 0.0:
            far = abs(x) / sqrt(-2.0 * log(value))
            start = max(start, far if far < 2.5 else 0.0)
            if time_value(x, centre) < value:
                start = max(start, centre)
        return _newton(lambda s: time_value(x, s), lambda s: _vega(x, s), value, start)
    missing = bound - value
    start = max(centre, 1.0)
    while _missing(x, start) > missing:
        start *= 1.5
    return _newton(lambda s: _missing(x, s), lambda s: -_vega(x, s), missing, start)


def _vega(x: float, s: float) -> float:
    return density(x / s) * exp(-0.125 * s * s)


def _missing(x: float, s: float) -> float:
    """exp(x / 2) less the time value."""
    return exp(0.5 * x) * cdf(-x / s - 0.5 * s) + exp(-0.5 * x) * cdf(x / s - 0.5 * s)


def bachelier_deviation(distance: float, value: float) -> float:
    """The s at which an option out of the money by ``distance`` >= 0 is worth ``value`` > 0 (Bachelier)."""
    start = _ROOT_2PI * value
    if distance == 0.0:
        return start
    return _newton(lambda s: _integral(distance, s, 0.0), lambda s: density(distance / s), value, start)


def _newton(
    f: Callable[[float], float], slope: Callable[[float], float], target: float, start: float
) -> float:
    """Where ``f`` is ``target``, by Newton's method on log f from a start on its good side."""
    s, last = start, inf
    for _ in range(_MOST_STEPS):
        value = f(s)
        if value <= 0.0:
            s *= 1.5
            continue
        step = value / slope(s) * log(target / value)
        s += step
        if abs(step) <= 1e-16 * s or (abs(step) >= abs(last) and abs(step) < 1e-12 * s):
            break
        last = step
    return s
