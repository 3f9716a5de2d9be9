"""American options by the integral equation of their exercise boundary.

L. Andersen, M. Lake and D. Offengenden, High-performance American option pricing (J. Computational Finance
20, 2016): the boundary as a Chebyshev polynomial in sqrt(time left), after a transformation that makes it
nearly straight, found by fixed-point steps; the premium is one integral more. Where the boundary found does
not make stopping and going on worth the same, finite differences take over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import cos, exp, log, pi, sin, sqrt
from typing import TypeAlias

from engine.pricing.analytic import free_boundary
from engine.pricing.analytic.barrier import is_constant
from engine.pricing.analytic.black import black
from engine.pricing.analytic.free_boundary import Put
from engine.pricing.analytic.method import Method, UnknownError
from engine.pricing.numerics.fixed_point import fixed_point
from engine.pricing.numerics.normal import cdf, density
from engine.pricing.numerics.quadrature import legendre
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import American

_Rule: TypeAlias = tuple[tuple[float, float, float], ...]


def _fractions(n: int) -> _Rule:
    """(fraction, rest, weight) for integrals over [0, 1] whose integrand has square roots at both ends."""
    turns = ((0.25 * pi * (1.0 + node), 0.25 * pi * weight) for node, weight in legendre(n))
    return tuple((sin(a) ** 2, cos(a) ** 2, 2.0 * sin(a) * cos(a) * weight) for a, weight in turns)


_POINTS = 12
_RULE = _fractions(24)
_FINE = _fractions(48)
_ROUNDS = 14
_CLOSE = 1e-10
_MISSED = 1e-6
"""How much, of the strike, the value on the boundary may differ from that of exercise."""
_ROUGH = 1e-6
"""How much, of the strike, half as many points may miss of the premium."""

_FALL = 0.3
"""How far a boundary falls for which the fixed point has no next one, in its logarithm."""


def serves(spec: Spec) -> bool:
    """Steps are a way out; rates are constant, and the yield of the put is at least 0."""
    return stepwise_serves(spec) and is_constant(spec) and as_put(spec).dividend.at(0.0) >= 0.0


def as_put(spec: Spec) -> Put:
    """The put that the option is, or equals: spot and strike change places, and so do rate and yield.

    McDonald and Schroder (1998), A parity result for American options.
    """
    product, market = spec.product, spec.market
    assert isinstance(product, American)
    rate, dividend, vol = market.rate, market.yields[0], market.vols[0]
    if product.type == "put":
        return Put(spec.spot, product.strike, spec.expiry, rate, dividend, vol)
    return Put(product.strike, spec.spot, spec.expiry, dividend, rate, vol)


def price(spec: Spec) -> float:
    put = as_put(spec)
    law = Law(put.rate.at(0.0), put.dividend.at(0.0), put.vol.at(0.0))
    return american_put(put.spot, put.strike, put.expiry, law)


def american_put(spot: float, strike: float, time: float, law: Law) -> float:
    """An American put. It is European where it never pays to stop early (rate <= 0).

    UnknownError where the boundary found does not make stopping and going on worth the same.
    """
    if law.rate <= 0.0:
        return _european(spot, strike, time, law)
    boundary = _Boundary(law, strike, time)
    if max(map(boundary.missed, boundary.times())) > _MISSED * strike:
        raise UnknownError("the fixed point of the integral equation was missed")
    if spot <= boundary.at(time):
        return strike - spot
    premium, rough = (boundary.premium(spot, time, rule) for rule in (_FINE, _RULE))
    if abs(premium - rough) > _ROUGH * strike:
        raise UnknownError("the spot passes the boundary in too short a time for the integral equation")
    return max(_european(spot, strike, time, law) + premium, strike - spot)


def _european(spot: float, strike: float, time: float, law: Law) -> float:
    mean = spot * exp((law.rate - law.dividend) * time)
    return exp(-law.rate * time) * black("put", mean, strike, law.vol * sqrt(time))


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
        start = [log(1.0 + (first / self._limit - 1.0) * share) for share in fallen]
        self._fit(fixed_point(self._improved_all, start, _ROUNDS, _CLOSE))

    def _improved_all(self, logs: Sequence[float]) -> list[float]:
        """The fixed point's next boundary, as log(B / X) at the points."""
        self._fit(logs)
        pairs = zip(self._roots, logs, strict=True)
        return [self._improved(root * root, self._limit * exp(x)) for root, x in pairs]

    def times(self) -> list[float]:
        """The points, as years to go."""
        return [root * root for root in self._roots if root > 0.0]

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

    def premium(self, spot: float, time: float, rule: _Rule) -> float:
        """What stopping at the boundary adds to the European put (Kim 1990, Jacka 1991)."""
        law, strike, premium = self._law, self._strike, 0.0
        for part, rest, weight in rule:
            passed, left = time * part, time * rest
            low, high = law.distances(passed, spot / self.at(left))
            gain = law.rate * strike * exp(-law.rate * passed) * cdf(-low)
            loss = law.dividend * spot * exp(-law.dividend * passed) * cdf(-high)
            premium += weight * time * (gain - loss)
        return premium

    def missed(self, left: float) -> float:
        """By how much stopping at the boundary and going on differ in worth."""
        level = self.at(left)
        waiting = _european(level, self._strike, left, self._law) + self.premium(level, left, _FINE)
        return abs(waiting - (self._strike - level))

    def _fit(self, logs: Sequence[float]) -> None:
        """The Chebyshev coefficients of H through its values at the points."""
        n = _POINTS
        h = [x * x for x in logs]
        self._coefficients = []
        for k in range(n + 1):
            total = 0.5 * (h[0] + (-1.0) ** k * h[n])
            total += sum(h[i] * cos(pi * i * k / n) for i in range(1, n))
            self._coefficients.append(total * (1.0 if k in (0, n) else 2.0) / n)

    def _improved(self, left: float, level: float) -> float:
        """One step of the paper's fixed point A, or B where rate and yield are close, as log(B / X)."""
        if left <= 0.0:
            return 0.0
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
        ratio = strike / self._limit * exp(-(law.rate - law.dividend) * left)
        if top <= 0.0 or bottom <= 0.0:
            return log(level / self._limit) - _FALL
        return min(log(ratio * top / bottom), 0.0)


def _first_guess(law: Law, strike: float, limit: float) -> float:
    """The boundary of the perpetual option (Merton 1973)."""
    half = 0.5 - (law.rate - law.dividend) / law.vol**2
    root = half - sqrt(half * half + 2.0 * law.rate / law.vol**2)
    return min(strike * root / (root - 1.0), limit)


# ---- rates that change, and negative yields

_MOST_TURNS = 64
_LARGEST_VARIANCE = 200.0
_MOST_DRIFT = 1000.0
"""The most that rates move the spot, in deviations of its logarithm, that finite steps can follow."""
_MOVED = 0.002
"""More than Greeks move a rate to see what it does: neighbours have a price too."""


def stepwise_serves(spec: Spec) -> bool:
    """Random all the time but for what a few changes of rates bring."""
    assert isinstance(spec.product, American)
    if spec.market.dividends or min(spec.spot, spec.product.strike) <= 0.0:
        return False
    put = as_put(spec)
    turns = put.turns()
    drift = sum(abs(put.carry(start, end)) for start, end in pairwise(turns)) + _MOVED * put.expiry
    variance = put.variance(0.0, put.expiry)
    wide = variance <= _LARGEST_VARIANCE and drift < _MOST_DRIFT * sqrt(variance)
    return wide and len(turns) <= _MOST_TURNS and min(put.vol.values) > 0.0


def stepwise(spec: Spec) -> float:
    return free_boundary.put(as_put(spec))


METHODS = (
    Method(
        American,
        BlackScholes,
        "integral equation",
        "Andersen, Lake, Offengenden (2016): High-performance American option pricing",
        price,
        serves,
        step=0.03,
        rounding=1e-10,
    ),
    Method(
        American,
        BlackScholes,
        "finite differences",
        "Brennan, Schwartz (1977): The valuation of American put options; extrapolated",
        stepwise,
        stepwise_serves,
        step=0.05,
        rounding=1e-8,
    ),
)
