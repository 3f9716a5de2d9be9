"""Laws of a Brownian motion with drift that is killed at one or two levels, by the method of images.

Between two levels, either of which may be infinite, the killed motion's density is that of the free one less
those from mirror images of its start, each weighted by exp(drift (start - x) / variance)
(W. Feller, An Introduction to Probability Theory, vol. 2, X.5). Drift and variance are totals to the horizon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp, inf, isinf, log, sqrt

from engine.pricing.numerics.normal import cdf, log_cdf
from engine.pricing.numerics.quadrature import integrate


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
        count = 1 + ceil((abs(self.drift) + 9.0 * sqrt(self.variance)) / (2.0 * width))
        starts = [2.0 * width * n for n in range(-count, count + 1)]
        mirrored = [(-1.0, 2.0 * self.upper - start) for start in starts]
        return [(1.0, start) for start in starts] + mirrored

    def between(self, low: float, high: float, tilt: float) -> float:
        """The mean of exp(tilt x) over killed paths that end in (low, high); tilt is 0 or 1."""
        low, high = max(low, self.lower), min(high, self.upper)
        if low >= high:
            return 0.0
        s = sqrt(self.variance)
        growth = tilt * (self.drift + 0.5 * tilt * self.variance)
        total = 0.0
        for sign, start in self.images():
            scale = self.drift * start / self.variance + tilt * start + growth
            centre = start + self.drift + tilt * self.variance
            total += sign * _weighted_between(scale, (low - centre) / s, (high - centre) / s)
        return total

    def survival(self) -> float:
        """The probability that neither level is reached."""
        return max(0.0, self.between(-inf, inf, 0.0))


def _weighted(scale: float, x: float) -> float:
    """exp(scale) cdf(x), where the first factor alone may be too large."""
    return exp(scale) * cdf(x) if scale < 300.0 and x > -35.0 else exp(min(scale + log_cdf(x), 700.0))


def _weighted_between(scale: float, low: float, high: float) -> float:
    """exp(scale) P(low < X < high), from the tail on whose side the interval lies."""
    if low > 0.0:
        low, high = -high, -low
    below = 0.0 if low == -inf else _weighted(scale, low)
    return (exp(scale) if high == inf else _weighted(scale, high)) - below


def hit_probability(distance: float, drift: float, variance: float) -> float:
    """The probability that a motion from 0 reaches ``distance`` (of either sign)."""
    if distance == 0.0:
        return 1.0
    if distance < 0.0:
        distance, drift = -distance, -drift
    s = sqrt(variance)
    reflected = _weighted(2.0 * drift * distance / variance, (-distance - drift) / s)
    return min(1.0, cdf((drift - distance) / s) + reflected)


def discounted_hit(distance: float, drift: float, variance: float, rate: float) -> float:
    """The mean of exp(-rate tau / T) over paths that reach ``distance`` at tau <= T (all totals to T).

    Reiner and Rubinstein, Breaking down the barriers (Risk, 1991), term F.
    """
    if distance == 0.0:
        return 1.0
    if distance < 0.0:
        distance, drift = -distance, -drift
    square = drift * drift + 2.0 * rate * variance
    if square < 0.0:
        return paid_at_hit(lambda part: hit_probability(distance, drift * part, variance * part), rate)
    root, s = sqrt(square), sqrt(variance)
    fast = _weighted((drift - root) * distance / variance, (root - distance) / s)
    slow = _weighted((drift + root) * distance / variance, (-root - distance) / s)
    return fast + slow


def paid_at_hit(hit_by: Callable[[float], float], rate: float) -> float:
    """The mean of exp(-rate tau / T) over tau <= T, from P(tau <= part T), integrating by parts."""
    cuts = [0.0, *(2.0**-k for k in range(30, -1, -1))]
    integral = integrate(lambda part: exp(-rate * part) * hit_by(part) if part > 0.0 else 0.0, cuts, 12)
    return exp(-rate) * hit_by(1.0) + rate * integral


def mean_excess_of_maximum(distance: float, drift: float, variance: float) -> float:
    """The mean of max(exp(M) - exp(distance), 0) for the maximum M of a motion from 0; distance >= 0.

    The integral of exp(x) P(M > x) over x > distance: the law of the maximum, without the division by
    r - q of the usual formulas (Conze and Viswanathan, J. Finance 46, 1991).
    """
    cuts = _cuts(distance, drift, variance, max(distance, drift + variance) + 9.5 * sqrt(variance))
    return integrate(lambda x: exp(x) * hit_probability(x, drift, variance), cuts, 12)


def mean_excess_of_minimum(distance: float, drift: float, variance: float) -> float:
    """The mean of max(exp(distance) - exp(m), 0) for the minimum m of a motion from 0; distance <= 0."""
    last = max(-distance, -drift) + 9.5 * sqrt(variance)
    cuts = [-x for x in reversed(_cuts(-distance, -drift, variance, last))]
    return integrate(lambda x: exp(x) * hit_probability(x, drift, variance), cuts, 12)


def _cuts(start: float, drift: float, variance: float, end: float) -> list[float]:
    """Cuts between which the tail of a maximum is smooth.

    It falls near ``drift`` if the motion gets there, else from ``start`` on, as fast as exp(2 drift x /
    variance).
    """
    s = sqrt(variance)
    sure = drift - 9.5 * s
    if sure > start:
        return [start, 0.5 * (start + sure), *(sure + (end - sure) * k / 12.0 for k in range(13))]
    width = min(s, variance / abs(drift)) if drift < 0.0 else s
    cuts = [start]
    while cuts[-1] < end:
        cuts.append(cuts[-1] + width)
        width = min(1.5 * width, 1.5 * s)
    return [*cuts[:-1], end]


def log_ratio(numerator: float, denominator: float) -> float:
    """log(numerator / denominator), infinite where either is 0."""
    if numerator <= 0.0:
        return -inf
    return log(numerator / denominator) if denominator > 0.0 else inf
