"""American options whose rates or volatility change, or whose rates are negative, by finite differences.

With the variance as clock, and discounted to today, the value of a put is a function U(w, y) of a Brownian
motion y that solves U_w = U_yy / 2 wherever it exceeds the obstacle, which is the discounted payoff: rates,
yields and volatility move the obstacle only. Steps are those of TR-BDF2 (R. Bank et al., IEEE Trans. Electron
Devices 32, 1985), graded backwards from expiry and from each change of a rate. A step's complementarity
problem is solved from the inside of the exercise region to both sides (M. Brennan and E. Schwartz, J. Finance
32, 1977): the value is convex in the spot, so that the region is an interval, with two boundaries where
yield < rate < 0 (A. Battauz, M. De Donno and A. Sbuelz, Management Science 61, 2015), or empty. Errors fall
with the square of the steps; extrapolations from two pairs of grids tell how far they are from the limit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, sqrt

from engine.pricing.analytic.method import UnknownError
from engine.pricing.spec import Curve

_REACH = 6.0
_LEVELS = ((400, 100), (800, 200), (1600, 400), (3200, 800))
"""Intervals in space and steps in time; the last only where the ones before do not agree."""
ACCURACY = 1e-6
"""Of the price, or of a deviation of the spot's logarithm times the strike where that is more."""
_LEAST_STEPS = 8
_GAMMA = 2.0 - sqrt(2.0)
_MIXED = 1.0 / (_GAMMA * (2.0 - _GAMMA))
"""The second stage begins from ``_MIXED`` of the first one's, less ``_MIXED - 1`` of the step's beginning."""


@dataclass(frozen=True, slots=True)
class Put:
    """An American put on a spot of lognormal law; spot and strike > 0, the volatility not always 0."""

    spot: float
    strike: float
    expiry: float
    rate: Curve
    dividend: Curve
    vol: Curve

    def turns(self) -> list[float]:
        """Today, expiry, and the times between at which a curve changes."""
        curves = (self.rate, self.dividend, self.vol)
        inner = {time for curve in curves for time in curve.until if time < self.expiry}
        return sorted({0.0, *inner, self.expiry})

    def variance(self, start: float, end: float) -> float:
        return self.vol.integral_of_square(start, end)

    def carry(self, start: float, end: float) -> float:
        return self.rate.integral(start, end) - self.dividend.integral(start, end)


def put(contract: Put) -> float:
    """Its value. UnknownError where grids do not agree on it to ``ACCURACY``."""
    scale = contract.strike * min(1.0, sqrt(contract.variance(0.0, contract.expiry)))
    values = [_on_grid(contract, *level) for level in _LEVELS[:2]]
    before = values[1] + (values[1] - values[0]) / 3.0
    for level in _LEVELS[2:]:
        values.append(_on_grid(contract, *level))
        limit = values[-1] + (values[-1] - values[-2]) / 3.0
        if 0.5 * abs(limit - before) <= ACCURACY * max(limit, scale):
            return max(limit, contract.strike - contract.spot)
        before = limit
    raise UnknownError(f"finite differences do not settle to {ACCURACY:g}")


def _on_grid(contract: Put, intervals: int, steps: int) -> float:
    grid = _Grid(contract, intervals)
    for start, end in _times(contract, steps):
        grid.step(start, end)
    return grid.values[intervals // 2]


def _times(contract: Put, steps: int) -> list[tuple[float, float]]:
    """(start, end) of all steps, the last first; quadratically short before each turn."""
    whole, pairs = contract.variance(0.0, contract.expiry), []
    for start, end in reversed(list(pairwise(contract.turns()))):
        part = max(contract.variance(start, end) / whole, (end - start) / contract.expiry)
        count = max(_LEAST_STEPS, round(steps * sqrt(part)))
        times = [end - (end - start) * (i / count) ** 2 for i in range(count)] + [start]
        pairs += [(earlier, later) for later, earlier in pairwise(times)]
    return pairs


class _Grid:
    """The discounted value on equal intervals of y about today's spot, and where it is that of exercise."""

    def __init__(self, contract: Put, intervals: int) -> None:
        self._contract = contract
        deviation = sqrt(contract.variance(0.0, contract.expiry))
        self._width = h = 2.0 * _REACH * deviation / intervals
        self._spots = [contract.spot * exp(h * (i - intervals // 2)) for i in range(intervals + 1)]
        self.values = self._expiring()
        self._inside = 0

    def _amounts(self, time: float) -> tuple[float, float]:
        """a and b of the obstacle a - b exp(y)."""
        c = self._contract
        discount = exp(-c.rate.integral(0.0, time))
        return discount * c.strike, discount * exp(c.carry(0.0, time) - 0.5 * c.variance(0.0, time))

    def _obstacle(self, time: float) -> list[float]:
        a, b = self._amounts(time)
        return [a - b * spot for spot in self._spots]

    def _expiring(self) -> list[float]:
        """The payoff, averaged over each interval: the kink lies between points."""
        a, b = self._amounts(self._contract.expiry)
        half, values = 0.5 * self._width, []
        for spot in self._spots:
            top = min(max(log(a / (b * spot)), -half), half)
            values.append((a * (top + half) - b * spot * (exp(top) - exp(-half))) / self._width)
        return values

    def step(self, start: float, end: float) -> None:
        """From time ``end`` back to ``start``."""
        weight = 0.25 * _GAMMA * self._contract.variance(start, end) / self._width**2
        factors = _factors(weight, len(self.values) - 2)
        old = self.values
        rest = 1.0 - 2.0 * weight
        half = [rest * x + weight * (low + high) for low, x, high in zip(old, old[1:], old[2:], strict=False)]
        self._settle(half, end - _GAMMA * (end - start), weight, factors)
        mixed = [_MIXED * x - (_MIXED - 1.0) * y for x, y in zip(self.values[1:-1], old[1:-1], strict=True)]
        self._settle(mixed, start, weight, factors)

    def _settle(self, right: list[float], time: float, weight: float, factors: list[float]) -> None:
        """Solves (1 + 2 weight) U_i - weight (U_i-1 + U_i+1) = right_i where U exceeds the obstacle.

        At both ends U is what it was, unless exercise is better.
        """
        obstacle = self._obstacle(time)
        ends = max(self.values[0], obstacle[0]), max(self.values[-1], obstacle[-1])
        system = _System(right, obstacle, ends, weight, factors)
        self.values, self._inside = system.solved(self._inside)


@dataclass(frozen=True, slots=True)
class _System:
    right: list[float]
    obstacle: list[float]
    ends: tuple[float, float]
    weight: float
    factors: list[float]

    def solved(self, guess: int) -> tuple[list[float], int]:
        """The values, and a point in the middle of the region of exercise (0: there is none)."""
        if guess:
            values = self._about(guess)
            if self._is_exercised(values, guess):
                return values, self._middle(values, guess)
        free = [self.ends[0], *self._side(self.right, None, self.ends[0], self.ends[1]), self.ends[1]]
        excess = [x - y for x, y in zip(free, self.obstacle, strict=True)]
        least = min(excess[1:-1])
        if least >= 0.0:
            return free, 0
        inside = excess.index(least, 1)
        values = self._about(inside)
        return values, self._middle(values, inside)

    def _about(self, inside: int) -> list[float]:
        """The values if exercise is best at the point ``inside``."""
        at = self.obstacle[inside]
        below = self._side(self.right[: inside - 1][::-1], self.obstacle[inside - 1 :: -1], at, self.ends[0])
        above = self._side(self.right[inside:], self.obstacle[inside + 1 :], at, self.ends[1])
        return [self.ends[0], *reversed(below), at, *above, self.ends[1]]

    def _side(
        self, right: Sequence[float], obstacle: Sequence[float] | None, near: float, far: float
    ) -> list[float]:
        """The values between ``near`` and ``far``, in this order, as ``right`` and the obstacle are given."""
        weight, reduced, value = self.weight, [], far
        for factor, r in zip(self.factors, reversed(right), strict=False):
            value = factor * (r + weight * value)
            reduced.append(value)
        values, value = [], near
        slopes = [weight * factor for factor in self.factors[: len(right)]]
        if obstacle is None:
            for slope, d in zip(reversed(slopes), reversed(reduced), strict=True):
                value = slope * value + d
                values.append(value)
            return values
        for slope, d, least in zip(reversed(slopes), reversed(reduced), obstacle, strict=False):
            value = slope * value + d
            value = least if value < least else value  # max() takes twice as long
            values.append(value)
        return values

    def _is_exercised(self, values: list[float], at: int) -> bool:
        flow = (1.0 + 2.0 * self.weight) * values[at] - self.weight * (values[at - 1] + values[at + 1])
        return flow >= self.right[at - 1]

    def _middle(self, values: list[float], inside: int) -> int:
        """The middle of the points at which the value is that of exercise, all of them beside each other."""
        points, obstacle = range(len(values)), self.obstacle
        first = bisect_left(points[: inside + 1], True, key=lambda i: values[i] <= obstacle[i])
        last = bisect_left(points[inside:], True, key=lambda i: values[i] > obstacle[i]) + inside - 1
        return min(max((first + last) // 2, 1), len(values) - 2)


def _factors(weight: float, count: int) -> list[float]:
    """1 over the diagonal that is left after each point of the elimination, from an end on."""
    factor, factors, diagonal = 0.0, [], 1.0 + 2.0 * weight
    for i in range(count):
        before, factor = factor, 1.0 / (diagonal - weight * weight * factor)
        factors.append(factor)
        if factor == before:
            return factors + [factor] * (count - i - 1)
    return factors
