"""Bermudan options by quadrature from date to date.

The value of waiting is analytic; what is integrated is the larger of it and exercise, which bends at the
exercise boundary only. So each integral is one in closed form up to the boundary, one over the part of a
panel to its right, and one over whole Gauss-Legendre panels (A. Andricopoulos, M. Widdicks, P. Duck and
D. Newton, Universal option valuation using quadrature methods, J. Financial Economics 67, 2003). Accurate to
about 1e-8.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, inf, log, pi, sqrt

from engine.pricing.analytic.black import european
from engine.pricing.analytic.method import Method
from engine.pricing.analytic.monitored import Piece, Step, mean_of_pieces, moves_at_dates, steps_to
from engine.pricing.numerics.quadrature import legendre
from engine.pricing.numerics.roots import find_root
from engine.pricing.numerics.rows import Row, dot
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import Bermudan, European

_REACH = 7.2
_REACH_UP = 4.5
"""A path that rises further and comes back to pay is as rare as one that falls by ``_REACH``."""
_PANEL = 2.6
_RULE = legendre(9)
_SIZE = len(_RULE)


def as_put(spec: Spec) -> Spec:
    """The put that is worth as much as a call: spot and strike change places, and so do rate and yield.

    McDonald and Schroder (1998), A parity result for American options.
    """
    product, market = spec.product, spec.market
    assert isinstance(product, Bermudan)
    if product.type == "put":
        return spec
    swapped = replace(market, spots=(product.strike,), rate=market.yields[0], yields=(market.rate,))
    return replace(spec, product=replace(product, type="put", strike=spec.spot), market=swapped)


def _dates(spec: Spec) -> list[float]:
    """The dates after today."""
    assert isinstance(spec.product, Bermudan)
    return [t for t in spec.product.exercise.times if t > 0.0]


def never_stops(put: Spec) -> bool:
    """Whether waiting for the next date is always better: cash loses nothing by it, nor beside the spot."""
    rate, dividend = put.market.rate, put.market.yields[0]
    spans = list(pairwise(_dates(put)))
    return all(rate.integral(a, b) <= min(dividend.integral(a, b), 0.0) for a, b in spans)


def stops_below(put: Spec) -> bool:
    """Whether a put is exercised below one level, if at all: on a spot of 0 waiting is never better.

    The value is convex in the spot, so that it is that of exercise on an interval.
    """
    return all(put.market.rate.integral(a, b) >= 0.0 for a, b in pairwise(_dates(put)))


def serves(spec: Spec) -> bool:
    product, market = spec.product, spec.market
    assert isinstance(product, Bermudan)
    if market.dividends or min(spec.spot, product.strike) <= 0.0:
        return False
    times, put = _dates(spec), as_put(spec)
    return (not times or moves_at_dates(spec, times)) and (never_stops(put) or stops_below(put))


def price(spec: Spec) -> float:
    put = as_put(spec)
    product = put.product
    assert isinstance(product, Bermudan)
    times = _dates(put)
    now = max(product.strike - put.spot, 0.0) if product.exercise.times[0] == 0.0 else 0.0
    if not times:
        return now
    if never_stops(put):
        last = replace(put, product=European("put", product.strike), expiry=times[-1])
        return max(now, european(last))
    steps, _ = steps_to(put, times)
    return max(now, _Grid(log(put.spot), product.strike, steps).price())


@dataclass(slots=True)
class _Waiting:
    """The value of waiting at one date, at the nodes from panel ``first`` on, and the exercise boundary."""

    first: int
    values: list[float]
    boundary: float


class _Grid:
    """Panels over the log prices that matter, and the rows of the integral from each node."""

    def __init__(self, start: float, strike: float, steps: Sequence[Step]) -> None:
        self._start, self._strike, self._steps = start, strike, steps
        windows = self._windows()
        low = min(window[0] for window in windows)
        high = max(window[1] for window in windows)
        width = _PANEL * min(step.deviation for step in steps)
        self._edges = [low + width * i for i in range(int((high - low) / width) + 2)]
        self._width = width
        self._nodes = [left + 0.5 * width * (1.0 + node) for left in self._edges[:-1] for node, _ in _RULE]
        self._panels = [(int((a - low) / width), int((b - low) / width)) for a, b in windows]
        self._rows: dict[tuple[Step, int], Row] = {}

    def _windows(self) -> list[tuple[float, float]]:
        """At each date the log prices that matter."""
        mean, variance, windows = self._start, 0.0, []
        whole = sqrt(sum(step.deviation**2 for step in self._steps))
        for step in self._steps:
            mean += step.mean
            variance += step.deviation**2
            reach = _REACH * sqrt(variance)
            back = max(self._start, mean, log(self._strike)) + _REACH_UP * whole
            windows.append((mean - reach, min(mean + reach, back)))
        return windows

    def price(self) -> float:
        waiting: _Waiting | None = None
        for k in range(len(self._steps) - 1, 0, -1):
            waiting = self._before(self._steps[k], waiting, self._panels[k - 1])
        return self._value(self._steps[0], self._start, waiting)

    def _before(self, step: Step, later: _Waiting | None, panels: tuple[int, int]) -> _Waiting:
        """One date earlier: panels leftwards, until exercise is better at a panel's end."""
        bottom, top = panels
        boundary = log(self._strike) if later is None else later.boundary
        panel = min(max(int((boundary - self._edges[0]) / self._width), bottom), top)
        inner = _Partial(self, later)
        values = [self._at(step, i, later, inner) for i in range(panel * _SIZE, (top + 1) * _SIZE)]
        while values[0] > self._strike - exp(self._nodes[panel * _SIZE]) and panel > bottom:
            panel -= 1
            found = [self._at(step, i, later, inner) for i in range(panel * _SIZE, (panel + 1) * _SIZE)]
            values = found + values
        return _Waiting(panel, values, self._boundary(panel, values))

    def _boundary(self, panel: int, values: list[float]) -> float:
        """Where waiting is worth as much as exercise; an end of the grid where one is always better."""
        nodes = self._nodes[panel * _SIZE :]
        if values[0] > self._strike - exp(nodes[0]):
            return self._edges[panel]
        waits = (i for i in range(1, len(values)) if values[i] > self._strike - exp(nodes[i]))
        i = next(waits, None)
        if i is None:
            return self._edges[panel + len(values) // _SIZE]
        base = max(0, min(i - _SIZE // 2, len(values) - _SIZE))
        xs, ys = nodes[base : base + _SIZE], values[base : base + _SIZE]

        def excess(x: float) -> float:
            return _interpolate(xs, ys, x) - self._strike + exp(x)

        left, right = nodes[i - 1], nodes[i]
        return find_root(excess, left, right) if excess(left) < 0.0 < excess(right) else right

    def _at(self, step: Step, i: int, later: _Waiting | None, inner: _Partial) -> float:
        x = self._nodes[i]
        total = mean_of_pieces(inner.exercised, x, step)
        if later is None:
            return total
        row = self._rows.get((step, i))
        if row is None:
            row = self._rows[(step, i)] = self._coefficients(step, x)
        return total + dot(row, inner.start, inner.values) + inner.mean(x, step)

    def _value(self, step: Step, x: float, later: _Waiting | None) -> float:
        inner = _Partial(self, later)
        total = mean_of_pieces(inner.exercised, x, step)
        if later is None:
            return total
        return total + dot(self._coefficients(step, x), inner.start, inner.values) + inner.mean(x, step)

    def _coefficients(self, step: Step, at: float) -> Row:
        """First node and weights of the discounted integral over whole panels from ``at``."""
        centre, s = at + step.mean, step.deviation
        first = bisect_left(self._nodes, centre - _REACH * s)
        last = bisect_right(self._nodes, centre + _REACH * s)
        scale, factor = 0.5 * self._width * step.discount / (s * sqrt(2.0 * pi)), -0.5 / (s * s)
        weights = [weight for _, weight in _RULE]
        return first, [
            scale * weights[i % _SIZE] * exp(factor * (self._nodes[i] - centre) ** 2)
            for i in range(first, last)
        ]

    def edge_after(self, x: float) -> int:
        """The number of the panel that begins right of ``x``."""
        return bisect_right(self._edges, x)

    def part(self, waiting: _Waiting, panel: int) -> tuple[list[float], list[float]]:
        """Nodes and values of waiting in one panel."""
        base = panel * _SIZE
        offset = base - waiting.first * _SIZE
        return self._nodes[base : base + _SIZE], waiting.values[offset : offset + _SIZE]

    @property
    def edges(self) -> list[float]:
        return self._edges

    @property
    def strike(self) -> float:
        return self._strike


class _Partial:
    """What is integrated at a date: exercise up to the boundary, part of a panel, and whole panels."""

    def __init__(self, grid: _Grid, waiting: _Waiting | None) -> None:
        boundary = log(grid.strike) if waiting is None else waiting.boundary
        self.exercised = [Piece(-inf, boundary, -1.0, grid.strike)]
        self.start = 0
        self.values: list[float] = []
        self._nodes: list[tuple[float, float]] = []
        if waiting is None:
            return
        panel = grid.edge_after(boundary)
        if panel > waiting.first + len(waiting.values) // _SIZE:
            return
        self.start = panel * _SIZE
        self.values = waiting.values[self.start - waiting.first * _SIZE :]
        xs, ys = grid.part(waiting, panel - 1)
        half = 0.5 * (grid.edges[panel] - boundary)
        self._nodes = [
            (x, half * weight * _interpolate(xs, ys, x))
            for x, weight in ((boundary + half * (1.0 + node), weight) for node, weight in _RULE)
        ]

    def mean(self, at: float, step: Step) -> float:
        """The discounted integral over the part of a panel right of the boundary."""
        centre, s = at + step.mean, step.deviation
        if not self._nodes or abs(centre - self._nodes[0][0]) > (_REACH + _PANEL) * s:
            return 0.0
        scale, factor = step.discount / (s * sqrt(2.0 * pi)), -0.5 / (s * s)
        return scale * sum(value * exp(factor * (x - centre) ** 2) for x, value in self._nodes)


def _interpolate(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    """The polynomial through the points, by Neville's scheme."""
    values = list(ys)
    n = len(values)
    for k in range(1, n):
        for i in range(n - k):
            values[i] = ((x - xs[i + k]) * values[i] + (xs[i] - x) * values[i + 1]) / (xs[i] - xs[i + k])
    return values[0]


METHODS = (
    Method(
        Bermudan,
        BlackScholes,
        "recursion",
        "Andricopoulos, Widdicks, Duck, Newton (2003): quadrature from date to date",
        price,
        serves,
        step=0.03,
        rounding=1e-11,
    ),
)
