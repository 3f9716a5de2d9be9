"""Functions of time that are constant in pieces: rates, yields, volatilities."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Curve:
    """``values[i]`` holds until ``until[i]`` years, the last one for ever. A constant has no ``until``."""

    until: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def is_constant(self) -> bool:
        return not self.until

    def at(self, time: float) -> float:
        """The value just after ``time``."""
        return self.values[bisect_right(self.until, time)]

    def integral(self, start: float, end: float) -> float:
        """The integral from ``start`` to ``end`` (years)."""
        if not self.until:
            return self.values[0] * (end - start)
        return self._integrate(start, end, self.values)

    def integral_of_square(self, start: float, end: float) -> float:
        """The integral of the square, which is the total variance of a volatility."""
        if not self.until:
            return self.values[0] * self.values[0] * (end - start)
        return self._integrate(start, end, tuple(value * value for value in self.values))

    def mean(self, expiry: float) -> float:
        """The average over [0, expiry]; the first value where expiry is 0."""
        if self.is_constant or expiry == 0.0:
            return self.values[0]
        return self.integral(0.0, expiry) / expiry

    def raised(self, by: float) -> Curve:
        """The curve with ``by`` added to all its values."""
        return replace(self, values=tuple(value + by for value in self.values))

    def delayed(self, by: float) -> Curve:
        """The curve with all its changes ``by`` years later."""
        return replace(self, until=tuple(time + by for time in self.until))

    def _integrate(self, start: float, end: float, values: tuple[float, ...]) -> float:
        total, left = 0.0, start
        for until, value in zip(self.until, values, strict=False):
            right = min(max(until, left), end)
            total += value * (right - left)
            left = right
        return total + values[-1] * (end - left)


def product_integral(first: Curve, second: Curve, start: float, end: float) -> float:
    """The integral of the product of two curves: the covariance of two assets, but for their correlation."""
    if first.is_constant and second.is_constant:
        return first.values[0] * second.values[0] * (end - start)
    cuts = sorted({start, end, *(t for t in first.until + second.until if start < t < end)})
    return sum(first.at(left) * second.at(left) * (right - left) for left, right in pairwise(cuts))
