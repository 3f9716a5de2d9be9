"""Laws of a Brownian motion with drift that is killed at one or two levels, by the method of images.

Between two levels, either of which may be infinite, the killed motion's density is that of the free one less
those from mirror images of its start, each weighted by exp(drift (start - x) / variance)
(W. Feller, An Introduction to Probability Theory, vol. 2, X.5). Drift and variance are totals to the horizon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp, inf, isinf, log, sqrt

from engine.pricing.numerics.normal import cdf, density, mills
from engine.pricing.numerics.quadrature import integrate

_SHORTEST_LIFE = 160.0
"""Squared widths of variance after which no path between two levels is left: exp(-pi^2 80) of them."""


_FARTHEST = 9.5
"""Deviations beyond which nothing is left of a normal law, and up to which all is."""
_WIDEST = 3.0
"""The widest panel in which few points do for an exponential."""
_CERTAIN = 1e-14
"""The deviation of a path, for its length, that is lost in its rounding."""


@dataclass(frozen=True, slots=True)
class Killed:
    """A log price at 0 that drifts by ``drift`` with ``variance`` > 0, killed at lower < 0 and upper > 0."""

    drift: float
    variance: float
    lower: float
    upper: float

    def images(self) -> list[tuple[float, float]]:
        """(sign, start) of the free motions whose weighted sum is the killed one."""
        if isinf(self.lower) or isinf(self.upper):
            levels = [level for level in (self.lower, self.upper) if not isinf(level)]
            return [(1.0, 0.0), *((-1.0, 2.0 * level) for level in levels)]
        width = self.upper - self.lower
        if self.variance > _SHORTEST_LIFE * width * width:
            return []
        count = 1 + ceil(9.0 * sqrt(self.variance) / (2.0 * width))
        starts = [2.0 * width * n for n in range(-count, count + 1)]
        mirrored = [(-1.0, 2.0 * self.upper - start) for start in starts]
        return [(1.0, start) for start in starts] + mirrored

    def between(self, low: float, high: float, tilt: float) -> float:
        """The mean of exp(tilt x) over killed paths that end in (low, high); tilt is 0 or 1."""
        low, high = max(low, self.lower), min(high, self.upper)
        if low >= high:
            return 0.0
        return sum(sign * self._image(start, low, high, tilt) for sign, start in self.images())

    def _image(self, start: float, low: float, high: float, tilt: float) -> float:
        """The part of one image, from the tail on whose side the interval lies."""
        s, centre = sqrt(self.variance), start + self.drift + tilt * self.variance
        x, y = (low - centre) / s, (high - centre) / s
        if x > 0.0:
            return self._below(start, low, -x, tilt) - self._below(start, high, -y, tilt)
        return self._below(start, high, y, tilt) - self._below(start, low, x, tilt)

    def _below(self, start: float, level: float, x: float, tilt: float) -> float:
        scale = self.drift * start / self.variance + tilt * start
        scale += tilt * (self.drift + 0.5 * tilt * self.variance)
        if isinf(x):
            return exp(scale) if x > 0.0 else 0.0
        square = (level - self.drift) ** 2 + start * (start - 2.0 * level)
        return _weighted(scale, x, tilt * level - 0.5 * square / self.variance)

    def survival(self) -> float:
        """The probability that neither level is reached."""
        return max(0.0, self.between(-inf, inf, 0.0))


def _weighted(scale: float, x: float, whole: float) -> float:
    """exp(scale) cdf(x), where the first factor alone may be too large. ``whole`` is scale - x^2 / 2."""
    if x > -6.0 or abs(scale) < 30.0:
        return exp(scale) * cdf(x)
    return exp(whole) * mills(-x) * density(0.0)


def hit_probability(distance: float, drift: float, variance: float) -> float:
    """The probability that a motion from 0 reaches ``distance`` (of either sign)."""
    if distance == 0.0:
        return 1.0
    if distance < 0.0:
        distance, drift = -distance, -drift
    s = sqrt(variance)
    short = (distance - drift) / s
    reflected = _weighted(2.0 * drift * distance / variance, (-distance - drift) / s, -0.5 * short * short)
    return min(1.0, cdf(-short) + reflected)


def discounted_hit(distance: float, drift: float, variance: float, rate: float) -> float:
    """The mean of exp(-rate tau / T) over paths that reach ``distance`` at tau <= T (all totals to T).

    Reiner and Rubinstein, Breaking down the barriers (Risk, 1991), term F. Of drift - root and drift + root
    one may vanish; their product doesn't.
    """
    if distance == 0.0:
        return 1.0
    if distance < 0.0:
        distance, drift = -distance, -drift
    square = drift * drift + 2.0 * rate * variance
    if square < 0.0:

        def hit_by(part: float) -> float:
            return hit_probability(distance, drift * part, variance * part)

        return paid_at_hit(hit_by, rate, drift, variance, distance)
    root, s = sqrt(square), sqrt(variance)
    larger = abs(drift) + root
    slopes = larger / variance, (2.0 * rate / larger if larger > 0.0 else 0.0)
    down, up = (-slopes[1], slopes[0]) if drift >= 0.0 else (-slopes[0], slopes[1])
    whole = -0.5 * (distance - drift) ** 2 / variance - rate
    fast = _weighted(down * distance, (root - distance) / s, whole)
    slow = _weighted(up * distance, (-root - distance) / s, whole)
    return fast + slow


def paid_at_hit(
    hit_by: Callable[[float], float], rate: float, drift: float, variance: float, *levels: float
) -> float:
    """The mean of exp(-rate tau / T) over tau <= T, from P(tau <= part T), integrating by parts.

    Panels shrink towards 0, and about the times at which the motion arrives at ``levels`` by its drift alone.
    """
    cuts = {0.0, *(2.0**-k for k in range(31))}
    for level in levels:
        arrival = level / drift if drift != 0.0 else inf
        if 0.0 < arrival < 2.0:
            spread = sqrt(variance * arrival) / abs(drift)
            cuts.update(arrival + k * spread for k in range(-9, 10))
    ordered = sorted(cut for cut in cuts if 0.0 <= cut <= 1.0)
    integral = integrate(lambda part: exp(-rate * part) * hit_by(part) if part > 0.0 else 0.0, ordered, 12)
    return exp(-rate) * hit_by(1.0) + rate * integral


def mean_fall_back(distance: float, drift: float, variance: float, sign: float) -> float:
    """The integral of exp(sign x) P(M > x, X_T < x) over x > distance >= 0, for the maximum M of a motion X.

    With sign 1 it is the mean by which exp(M) exceeds exp(X_T), or exp(distance) where that is more; with -1
    the same of the minimum of -X. Integrated rather than divided by r - q as usual (Conze and Viswanathan,
    J. Finance 46, 1991). The probability is that of X's mirror image beyond x.
    """
    s = sqrt(variance)
    if s < _CERTAIN * (distance + abs(drift)):
        return 0.0

    def value(x: float) -> float:
        short = (x - drift) / s
        scale = 2.0 * drift * x / variance
        return exp(sign * x) * _weighted(scale, (-x - drift) / s, -0.5 * short * short)

    start = max(distance, drift - _FARTHEST * s)
    end = max(distance, drift + max(sign, 0.0) * variance) + _FARTHEST * s
    widest = min(1.5 * s, _WIDEST)
    width = min(s, variance / (start - drift) if start > drift else s, widest)
    cuts = [start]
    while cuts[-1] < end:
        cuts.append(cuts[-1] + width)
        width = min(1.5 * width, widest)
    return integrate(value, cuts, 12)


def log_ratio(numerator: float, denominator: float) -> float:
    """log(numerator / denominator), infinite where either is 0."""
    if numerator <= 0.0:
        return -inf
    return log(numerator / denominator) if denominator > 0.0 else inf
