"""The noncentral chi-square law, and the incomplete gamma function that it is a mixture of."""

from __future__ import annotations

from math import exp, lgamma, log

_SMALL = 1e-17


def gamma_p(a: float, x: float) -> float:
    """The regularised lower incomplete gamma function P(a, x).

    Power series below a + 1, else one less a continued fraction (Abramowitz and Stegun 6.5.29, 6.5.31).
    """
    if x <= 0.0:
        return 0.0
    front = exp(a * log(x) - x - lgamma(a + 1.0))
    if x < a + 1.0:
        term, total, k = 1.0, 1.0, a
        while term > _SMALL * total:
            k += 1.0
            term *= x / k
            total += term
        return front * total
    return 1.0 - front * a * _continued_fraction(a, x)


def _continued_fraction(a: float, x: float) -> float:
    """Gamma(a, x) e^x x^-a by the modified Lentz method."""
    b = x + 1.0 - a
    c, d = 1e300, 1.0 / b
    value = d
    for i in range(1, 100_000):
        step = -i * (i - a)
        b += 2.0
        d = 1.0 / (step * d + b)
        c = b + step / c
        change = c * d
        value *= change
        if abs(change - 1.0) < 1e-16:
            break
    return value


def noncentral(x: float, degrees: float, noncentrality: float) -> float:
    """P(X <= x) for a noncentral chi-square X: a Poisson mixture of gamma laws.

    Sums the terms about the Poisson mode; P(a, y) falls by y^a e^-y / Gamma(a + 1) when a grows by 1.
    """
    y, rate = 0.5 * x, 0.5 * noncentrality
    if y <= 0.0:
        return 0.0
    mode = int(rate)
    top = mode
    while _log_poisson(top, rate) > log(_SMALL) + _log_poisson(mode, rate):
        top += max(1, (top - mode) // 4)
    a = 0.5 * degrees + top
    value = gamma_p(a, y)
    step = exp(a * log(y) - y - lgamma(a + 1.0))
    weight = exp(_log_poisson(top, rate))
    total = 0.0
    for k in range(top, -1, -1):
        total += weight * value
        if weight < _SMALL and k < mode:
            break
        step *= a / y
        a -= 1.0
        value += step
        weight *= k / rate if rate > 0.0 else 0.0
    return min(total, 1.0)


def _log_poisson(count: int, rate: float) -> float:
    return (count * log(rate) if rate > 0.0 else 0.0) - rate - lgamma(count + 1.0)
