"""Roots of functions of one variable."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import sqrt


def find_root(f: Callable[[float], float], low: float, high: float) -> float:
    """The root of ``f`` between ``low`` and ``high``, where its signs differ, to the last bits.

    Ridders' method (IEEE Trans. Circuits and Systems 26, 1979): bisection that also bends the line between
    the ends into an exponential; the bracket never widens.
    """
    at_low, at_high = f(low), f(high)
    if at_low == 0.0:
        return low
    if at_high == 0.0:
        return high
    if (at_low < 0.0) == (at_high < 0.0):
        raise ValueError(f"no change of sign between {low!r} ({at_low!r}) and {high!r} ({at_high!r})")
    for _ in range(200):
        middle = 0.5 * (low + high)
        at_middle = f(middle)
        root = sqrt(at_middle * at_middle - at_low * at_high)
        if root == 0.0:
            return middle
        guess = middle + (middle - low) * (at_middle if at_low > at_high else -at_middle) / root
        at_guess = f(guess)
        if at_guess == 0.0:
            return guess
        points = sorted(((low, at_low), (middle, at_middle), (guess, at_guess), (high, at_high)))
        for (left, at_left), (right, at_right) in pairwise(points):
            if (at_left < 0.0) != (at_right < 0.0):
                low, at_low, high, at_high = left, at_left, right, at_right
                break
        if high - low <= 4e-16 * (abs(low) + abs(high)):
            break
    return low if abs(at_low) < abs(at_high) else high
