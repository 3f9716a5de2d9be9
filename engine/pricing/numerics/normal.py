"""The normal law in one and two dimensions, accurate also in the tails."""

from __future__ import annotations

from math import asin, cos, erfc, exp, inf, pi, sin, sqrt
from statistics import NormalDist

from engine.pricing.numerics.quadrature import integrate, legendre

_ROOT_HALF = sqrt(0.5)
_DENSITY_0 = 1.0 / sqrt(2.0 * pi)
_STANDARD = NormalDist()
_NODES = legendre(24)
_FRACTIONS = 40


def density(x: float) -> float:
    """exp(-x^2 / 2) / sqrt(2 pi)."""
    return _DENSITY_0 * exp(-0.5 * x * x)


def cdf(x: float) -> float:
    """P(X <= x) to about 1e-16 (1 + x^2), relative: what the rounding of x itself does."""
    return 0.5 * erfc(-x * _ROOT_HALF)


def quantile(p: float) -> float:
    """The x with P(X <= x) = p, for 0 < p < 1: Wichura's AS 241 and one Newton step."""
    x = _STANDARD.inv_cdf(p)
    return x - (cdf(x) - p) / density(x)


def mills(x: float) -> float:
    """P(X > x) / density(x) for x > -37, by Laplace's continued fraction where both are small."""
    if x < 6.0:
        return cdf(-x) / density(x)
    value = x
    for k in range(_FRACTIONS, 0, -1):
        value = x + k / value
    return 1.0 / value


def cdf2(x: float, y: float, rho: float) -> float:
    """P(X <= x, Y <= y) for standard normals of correlation ``rho``, to about 1e-15.

    Plackett's identity (Biometrika 41, 1954): the derivative in rho is the density, so the probability is an
    integral over theta = asin(rho) from the nearest correlation at which it is known: 0, or 1 or -1.
    """
    if inf in (x, y):
        return cdf(min(x, y))
    if -inf in (x, y):
        return 0.0
    if abs(rho) < 0.8:
        return cdf(x) * cdf(y) + _over_angle(x, y, 0.0, asin(rho)) / (2.0 * pi)
    if rho < 0.0:
        x, y = min(x, y), max(x, y)
        return max(0.0, cdf(x) - cdf2(x, -y, -rho))
    if rho >= 1.0:
        return cdf(min(x, y))
    return cdf(min(x, y)) - _to_right_angle(x, y, rho) / (2.0 * pi)


def _over_angle(x: float, y: float, start: float, end: float) -> float:
    half, middle = 0.5 * (end - start), 0.5 * (end + start)
    squares, product = x * x + y * y, 2.0 * x * y
    total = 0.0
    for node, weight in _NODES:
        angle = middle + half * node
        total += weight * exp(-0.5 * (squares - product * sin(angle)) / cos(angle) ** 2)
    return half * total


def _to_right_angle(x: float, y: float, rho: float) -> float:
    """The integral from asin(rho) to pi/2, over the distance from the right angle, where cos is small."""
    distance, product = 0.5 * (x - y) ** 2, x * y

    def value(angle: float) -> float:
        s = sin(angle)
        if s == 0.0:
            return exp(-0.5 * product) if distance == 0.0 else 0.0
        return exp(-distance / (s * s) - product / (1.0 + cos(angle)))

    cuts = [asin(sqrt((1.0 - rho) * (1.0 + rho)))]
    while cuts[-1] > max(0.08 * sqrt(distance), 1e-17) and distance > 0.0:
        cuts.append(0.5 * cuts[-1])  # the integrand rises where sin is near sqrt(distance)
    return integrate(value, [0.0, *reversed(cuts)], 16)
