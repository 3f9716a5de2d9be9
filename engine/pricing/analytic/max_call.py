"""Bermudan calls on the larger of two assets, on square grids of two independent Brownian motions.

From date to date the mean over two normals is a trapezoidal sum along each axis. The value bends along
curves, which costs an error of the order of the squared grid step whose sign depends on where the curves fall
between grid points: the mean over several shifted grids cancels most of it. Accurate to about 2e-5 of the
spot, in about a second.
"""

from __future__ import annotations

from math import exp, pi, sqrt
from operator import mul

from engine.pricing.analytic.barrier import is_constant
from engine.pricing.analytic.method import Method
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import MaxCall

_STEPS_PER_DEVIATION = 3
_REACH = 5.0
_KERNEL = 6
_SHIFTS = ((0.1, 0.25), (0.3, 0.65), (0.5, 0.05), (0.7, 0.45), (0.9, 0.85))
_MOST_DATES = 12

Plane = list[list[float]]


def serves(spec: Spec) -> bool:
    """Two assets that move, not along one line, and up to twelve equal steps between the dates."""
    product, market = spec.product, spec.market
    assert isinstance(product, MaxCall)
    times = product.exercise.times
    if market.assets != 2 or not is_constant(spec) or min(market.spots) <= 0.0 or len(times) > _MOST_DATES:
        return False
    step = times[-1] / len(times)
    equal = all(abs(t - step * (i + 1)) <= 1e-9 * times[-1] for i, t in enumerate(times))
    moving = min(curve.at(0.0) for curve in market.vols) > 0.0
    return equal and step > 0.0 and moving and abs(market.correlation[0][1]) < 0.999


def price(spec: Spec) -> float:
    """The mean over the shifted grids."""
    return sum(_on_grid(spec, shift) for shift in _SHIFTS) / len(_SHIFTS)


def _on_grid(spec: Spec, shift: tuple[float, float]) -> float:
    product, market = spec.product, spec.market
    assert isinstance(product, MaxCall)
    times = product.exercise.times
    step = times[0]
    h = sqrt(step) / _STEPS_PER_DEVIATION
    half = int(_REACH * sqrt(times[-1]) / h) + 1
    first, second = ([(k + part) * h for k in range(-half, half + 1)] for part in shift)
    reach = _KERNEL * _STEPS_PER_DEVIATION
    kernel = _weights([k * h for k in range(-reach, reach + 1)], step, h)
    discount = market.discount(step)
    value = _payoff(spec, times[-1], first, second)
    for time in reversed(times[:-1]):
        waiting = _smoothed(_smoothed(value, kernel), kernel)
        payoff = _payoff(spec, time, first, second)
        value = [
            [max(discount * w, p) for w, p in zip(*rows, strict=True)]
            for rows in zip(waiting, payoff, strict=True)
        ]
    across = _weights(second, step, h)
    means = [sum(map(mul, row, across)) for row in value]
    return discount * float(sum(map(mul, means, _weights(first, step, h))))


def _weights(points: list[float], variance: float, h: float) -> list[float]:
    """Weights of the trapezoidal mean over a normal about 0."""
    scale = h / sqrt(2.0 * pi * variance)
    return [scale * exp(-0.5 * x * x / variance) for x in points]


def _payoff(spec: Spec, time: float, first: list[float], second: list[float]) -> Plane:
    """max(S1, S2) - K where that is above 0, at ``time`` and each pair of Brownian values."""
    product, market = spec.product, spec.market
    assert isinstance(product, MaxCall)
    vols = [curve.at(0.0) for curve in market.vols]
    levels = [market.spots[i] * exp(market.carry(i, 0.0, time) - 0.5 * vols[i] ** 2 * time) for i in range(2)]
    rho = market.correlation[0][1]
    rest = sqrt(1.0 - rho * rho)
    apart = [exp(vols[1] * rest * z) for z in second]
    plane = []
    for z in first:
        one, two = levels[0] * exp(vols[0] * z), levels[1] * exp(vols[1] * rho * z)
        plane.append([max(max(one, two * factor) - product.strike, 0.0) for factor in apart])
    return plane


def _smoothed(plane: Plane, kernel: list[float]) -> Plane:
    """The plane turned over, each of its rows averaged over the kernel."""
    reach = len(kernel) // 2
    edge = [0.0] * reach
    rows = []
    for row in plane:
        padded = [*edge, *row, *edge]
        rows.append([sum(map(mul, kernel, padded[i : i + len(kernel)])) for i in range(len(row))])
    return [list(column) for column in zip(*rows, strict=True)]


METHODS = (
    Method(
        MaxCall,
        BlackScholes,
        "recursion",
        "Andricopoulos, Widdicks, Newton, Duck (2007): quadrature for several assets",
        price,
        serves,
        is_smooth=False,
    ),
)
