"""American options by the integral equation of their exercise boundary.

L. Andersen, M. Lake and D. Offengenden, High-performance American option pricing (J. Computational Finance
20, 2016): the boundary as a Chebyshev polynomial in sqrt(time left), after a transformation that makes it
nearly straight, found by fixed-point steps; the premium is one integral more. Accurate to about 1e-7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import cos, exp, log, pi, sin, sqrt

from engine.pricing.analytic import bermudan
from engine.pricing.analytic.barrier import is_constant
from engine.pricing.analytic.black import black
from engine.pricing.analytic.method import Method
from engine.pricing.numerics.fixed_point import fixed_point
from engine.pricing.numerics.normal import cdf, density
from engine.pricing.numerics.quadrature import legendre
from engine.pricing.spec import BlackScholes, Schedule, Spec
from engine.pricing.spec.products import American, Bermudan


def _fractions(n: int) -> tuple[tuple[float, float, float], ...]:
    """(fraction, rest, weight) for integrals over [0, 1] whose integrand has square roots at both ends."""
    turns = ((0.25 * pi * (1.0 + node), 0.25 * pi * weight) for node, weight in legendre(n))
    return tuple((sin(a) ** 2, cos(a) ** 2, 2.0 * sin(a) * cos(a) * weight) for a, weight in turns)


_POINTS = 12
_RULE = _fractions(24)
_FINE = _fractions(48)
_ROUNDS = 14
_CLOSE = 1e-10
_MISSED = 3e-6
"""How much, of the strike, the value at the boundary may differ from that of exercise."""

_FALL = 0.3
"""How far a boundary falls for which the fixed point has no next one, in its logarithm."""


def serves(spec: Spec) -> bool:
    """Constant rates; the put that the option is or equals has a yield of at least 0; steps are a way out."""
    return is_constant(spec) and _rates(spec)[1] >= 0.0 and stepwise_serves(spec)


def _rates(spec: Spec) -> tuple[float, float]:
    """Rate and yield of the put that the option is, or equals (McDonald and Schroder 1998)."""
    assert isinstance(spec.product, American)
    rate, dividend = spec.market.rate.at(0.0), spec.market.yields[0].at(0.0)
    return (rate, dividend) if spec.product.type == "put" else (dividend, rate)


def price(spec: Spec) -> float:
    """By the integral equation, or by extrapolation where its fixed point was missed."""
    product = spec.product
    assert isinstance(product, American)
    rate, dividend = _rates(spec)
    spot, strike = spec.spot, product.strike
    if product.type == "call":
        spot, strike = strike, spot
    if spot <= 0.0 or strike <= 0.0:
        return max(strike - spot, 0.0)
    found = american_put(spot, strike, spec.expiry, Law(rate, dividend, spec.market.vols[0].at(0.0)))
    return stepwise(spec) if found is None else found


def american_put(spot: float, strike: float, time: float, law: Law) -> float | None:
    """An American put; None where the boundary found does not make stopping and going on worth the same.

    It is European where it never pays to stop early (rate <= 0).
    """
    if law.rate <= 0.0:
        return _european(spot, strike, time, law)
    boundary = _Boundary(law, strike, time)
    level = boundary.at(time)
    if abs(_held(level, strike, time, law, boundary) - (strike - level)) > _MISSED * strike:
        return None
    if spot <= level:
        return strike - spot
    return max(_held(spot, strike, time, law, boundary), strike - spot)


def _european(spot: float, strike: float, time: float, law: Law) -> float:
    mean = spot * exp((law.rate - law.dividend) * time)
    return exp(-law.rate * time) * black("put", mean, strike, law.vol * sqrt(time))


def _held(spot: float, strike: float, time: float, law: Law, boundary: _Boundary) -> float:
    """The European put, and the premium for stopping at the boundary (Kim 1990, Jacka 1991)."""
    premium = 0.0
    for part, rest, weight in _FINE:
        passed, left = time * part, time * rest
        low, high = law.distances(passed, spot / boundary.at(left))
        gain = law.rate * strike * exp(-law.rate * passed) * cdf(-low)
        loss = law.dividend * spot * exp(-law.dividend * passed) * cdf(-high)
        premium += weight * time * (gain - loss)
    return _european(spot, strike, time, law) + premium


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


def stepwise_serves(spec: Spec) -> bool:
    """The volatility is above 0 all the time, and there is one boundary."""
    return bermudan.serves(_as_bermudan(spec, 64)) and min(spec.market.vols[0].values) > 0.0


def stepwise(spec: Spec) -> float:
    """The limit of Bermudan prices for 16, 32 and 64 dates, to about 1e-4 of the strike."""
    few, some, many = (bermudan.price(_as_bermudan(spec, n)) for n in (16, 32, 64))
    extrapolated = 2.0 * many - some
    limit = (4.0 * extrapolated - (2.0 * some - few)) / 3.0
    product = spec.product
    assert isinstance(product, American)
    sign = 1.0 if product.type == "call" else -1.0
    return max(limit, sign * (spec.spot - product.strike), 0.0)


def _as_bermudan(spec: Spec, dates: int) -> Spec:
    product = spec.product
    assert isinstance(product, American)
    times = tuple(spec.expiry * i / dates for i in range(1, dates + 1))
    return replace(spec, product=Bermudan(product.type, product.strike, Schedule(times)))


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
    Method(
        American,
        BlackScholes,
        "recursion",
        "Geske, Johnson (1984): Bermudan prices, extrapolated",
        stepwise,
        stepwise_serves,
        step=0.05,
    ),
)
