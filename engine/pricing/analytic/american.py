"""American options by the integral equation of their exercise boundary.

L. Andersen, M. Lake and D. Offengenden, High-performance American option pricing (J. Computational Finance
20, 2016): the boundary as a Chebyshev polynomial in sqrt(time left), after a transformation that makes it
nearly straight, found by fixed-point steps; the premium is one integral more. Accurate to about 1e-7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, exp, inf, log, pi, sin, sqrt

from engine.pricing.analytic.barrier import is_constant
from engine.pricing.analytic.black import black
from engine.pricing.analytic.method import Method
from engine.pricing.numerics.normal import cdf, density
from engine.pricing.numerics.quadrature import legendre
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import American


def _fractions(n: int) -> tuple[tuple[float, float, float], ...]:
    """(fraction, rest, weight) for integrals over [0, 1] whose integrand has square roots at both ends."""
    turns = ((0.25 * pi * (1.0 + node), 0.25 * pi * weight) for node, weight in legendre(n))
    return tuple((sin(a) ** 2, cos(a) ** 2, 2.0 * sin(a) * cos(a) * weight) for a, weight in turns)


_POINTS = 10
_RULE = _fractions(24)
_FINE = _fractions(48)
_ROUNDS = 14
_CLOSE = 1e-10


def serves(spec: Spec) -> bool:
    """Constant rates, and a boundary below which alone a put (or the put that equals a call) is exercised."""
    if not is_constant(spec) or not isinstance(spec.product, American):
        return False
    rate, dividend = _rates(spec)
    return rate >= 0.0 or dividend >= rate


def _rates(spec: Spec) -> tuple[float, float]:
    """Rate and yield of the put that the option is, or equals (McDonald and Schroder 1998)."""
    assert isinstance(spec.product, American)
    rate, dividend = spec.market.rate.at(0.0), spec.market.yields[0].at(0.0)
    return (rate, dividend) if spec.product.type == "put" else (dividend, rate)


def price(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, American)
    rate, dividend = _rates(spec)
    spot, strike = spec.spot, product.strike
    if product.type == "call":
        spot, strike = strike, spot
    vol = spec.market.vols[0].at(0.0)
    if spot <= 0.0 or strike <= 0.0:
        return max(strike - spot, 0.0)
    return american_put(spot, strike, spec.expiry, Law(rate, dividend, vol))


def american_put(spot: float, strike: float, time: float, law: Law) -> float:
    """An American put; it is European where it never pays to stop early (rate <= 0)."""
    rate, dividend = law.rate, law.dividend
    mean = spot * exp((rate - dividend) * time)
    european = exp(-rate * time) * black("put", mean, strike, law.vol * sqrt(time))
    if rate <= 0.0:
        return european
    boundary = _Boundary(law, strike, time)
    if spot <= boundary.at(time):
        return strike - spot
    premium = 0.0
    for part, rest, weight in _FINE:
        passed, left = time * part, time * rest
        ratio = spot / boundary.at(left)
        low, high = law.distances(passed, ratio)
        gain = rate * strike * exp(-rate * passed) * cdf(-low)
        loss = dividend * spot * exp(-dividend * passed) * cdf(-high)
        premium += weight * time * (gain - loss)
    return max(european + premium, strike - spot)


@dataclass(frozen=True, slots=True)
class Law:
    """The lognormal law of the spot."""

    rate: float
    dividend: float
    vol: float

    def distances(self, time: float, ratio: float) -> tuple[float, float]:
        """d- and d+ for a spot of ``ratio`` strikes."""
        s = self.vol * sqrt(time)
        low = (log(ratio) + (self.rate - self.dividend) * time) / s - 0.5 * s
        return low, low + s


class _Boundary:
    """B(t), t the time left, through H = log(B / X)^2 with X its limit at expiry, on Chebyshev points."""

    def __init__(self, law: Law, strike: float, time: float) -> None:
        self._law = law
        self._strike = strike
        self._time = time
        self._limit = strike if law.dividend <= law.rate else strike * law.rate / law.dividend
        angles = [pi * i / _POINTS for i in range(_POINTS + 1)]
        self._roots = [0.5 * sqrt(time) * (1.0 + cos(angle)) for angle in angles]
        first = _first_guess(law, strike, self._limit)
        fallen = [1.0 - exp(-8.0 * root * law.vol) for root in self._roots]
        levels = [self._limit + (first - self._limit) * share for share in fallen]
        self._fit(levels)
        for _ in range(_ROUNDS):
            better = [
                self._improved(root * root, level) for root, level in zip(self._roots, levels, strict=True)
            ]
            moved = max(abs(new / old - 1.0) for new, old in zip(better, levels, strict=True))
            levels = better
            self._fit(levels)
            if moved < _CLOSE:
                break

    def at(self, left: float) -> float:
        """The boundary with ``left`` years to go."""
        if left <= 0.0:
            return self._limit
        z = 2.0 * sqrt(left / self._time) - 1.0
        b1 = b2 = 0.0
        for c in reversed(self._coefficients[1:]):
            b1, b2 = 2.0 * z * b1 - b2 + c, b1
        h = z * b1 - b2 + self._coefficients[0]
        return self._limit * exp(-sqrt(max(h, 0.0)))

    def _fit(self, levels: Sequence[float]) -> None:
        """The Chebyshev coefficients of H through its values at the points."""
        n = _POINTS
        h = [log(level / self._limit) ** 2 for level in levels]
        self._coefficients = []
        for k in range(n + 1):
            total = 0.5 * (h[0] + (-1.0) ** k * h[n])
            total += sum(h[i] * cos(pi * i * k / n) for i in range(1, n))
            self._coefficients.append(total * (1.0 if k in (0, n) else 2.0) / n)

    def _improved(self, left: float, level: float) -> float:
        """One step of the paper's fixed point A, or B where rate and yield are close."""
        if left <= 0.0:
            return self._limit
        law, strike = self._law, self._strike
        smooth = abs(law.rate - law.dividend) > 1e-3
        low, high = law.distances(left, level / strike)
        s = law.vol * sqrt(left)
        top = density(low) / s if smooth else cdf(low)
        bottom = cdf(high) + (density(high) / s if smooth else 0.0)
        for part, rest, weight in _RULE:
            wait, before = left * part, left * rest
            scale = left * weight
            low, high = law.distances(wait, level / self.at(before))
            paid, earned = law.rate * exp(law.rate * before), law.dividend * exp(law.dividend * before)
            if smooth:
                s = law.vol * sqrt(wait)
                top += scale * paid * density(low) / s
                bottom += scale * earned * (cdf(high) + density(high) / s)
            else:
                top += scale * paid * cdf(low)
                bottom += scale * earned * cdf(high)
        return min(strike * exp(-(law.rate - law.dividend) * left) * top / bottom, self._limit)


def _first_guess(law: Law, strike: float, limit: float) -> float:
    """The boundary of the perpetual option (Merton 1973)."""
    half = 0.5 - (law.rate - law.dividend) / law.vol**2
    root = half - sqrt(half * half + 2.0 * law.rate / law.vol**2)
    return min(strike * root / (root - 1.0), limit) if root > -inf else limit


METHODS = (
    Method(
        American,
        BlackScholes,
        "integral equation",
        "Andersen, Lake, Offengenden (2016): High-performance American option pricing",
        price,
        serves,
        step=0.03,
    ),
)
