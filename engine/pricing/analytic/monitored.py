"""What is watched at dates: barriers, touches, lookbacks and autocallables, by quadrature from date to date.

Between dates the log price is normal, so the value at one date is an integral over the next: in closed form
where the contract ends (outside the levels, or at expiry), by Gauss-Legendre panels that begin at the levels
where it goes on (A. Aitsahlia and T. Lai, J. Derivatives 5, 1997, with other nodes). Accurate to about 1e-9.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, log, pi, sqrt
from typing import NamedTuple

from engine.pricing.analytic.barrier import is_constant, vanilla
from engine.pricing.analytic.lookback import extreme_so_far, means_of_extremes, settle
from engine.pricing.analytic.method import Method
from engine.pricing.numerics.normal import cdf
from engine.pricing.numerics.quadrature import legendre
from engine.pricing.numerics.rows import Row, dot
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import Autocallable, Barrier, DoubleBarrier, Lookback, Touch

_REACH = 7.2
_PANEL = 3.0
LARGEST_VARIANCE = 200.0
"""The largest variance over a life for which the spots that matter are doubles."""

_MOST_STEPS = 1000.0
"""The widest range of log prices, in deviations of the shortest step, that is worth a grid."""

_MOVED = 0.002
"""More than Greeks move a rate to see what it does: the grid is wide enough for their neighbours too."""

_LEAST_DEVIATION = 1e-6
"""Of a step's log return: below it the rounding of log prices shows."""

_RULE = legendre(9)


def reach_up(reach: float, s: float) -> float:
    """Deviations up to which a normal counts: what is worth exp(x) has its centre ``s`` deviations higher."""
    return reach + max(s - 0.5, 0.0)


class Piece(NamedTuple):
    """The amount asset * exp(x) + cash for log prices x in (low, high)."""

    low: float
    high: float
    asset: float
    cash: float


class Step(NamedTuple):
    """From one date to the next: the normal log return, and the discount factor."""

    mean: float
    deviation: float
    discount: float


@dataclass(frozen=True, slots=True)
class Watched:
    """A contract that goes on while lower < x < upper at each date.

    ``exits[i]`` are the pieces paid at date i + 1 where it ends there; ``final`` those paid at the last date
    where it does not, or after ``last``, a step beyond the last date.
    """

    lower: float
    upper: float
    steps: Sequence[Step]
    exits: Sequence[Sequence[Piece]]
    final: Sequence[Piece]
    last: Step | None = None

    def price(self, start: float) -> float:
        """The value today at log price ``start``."""
        grid = _Grid(self, start)
        return grid.price()


def mean_of_pieces(pieces: Sequence[Piece], at: float, step: Step) -> float:
    """The discounted mean of an amount after ``step``, in closed form."""
    centre, s = at + step.mean, step.deviation
    total = 0.0
    for piece in pieces:
        if piece.cash != 0.0:
            total += piece.cash * _chance((piece.low - centre) / s, (piece.high - centre) / s)
        if piece.asset != 0.0:
            tilted = centre + s * s
            chance = _chance((piece.low - tilted) / s, (piece.high - tilted) / s)
            total += piece.asset * exp(centre + 0.5 * s * s) * chance
    return step.discount * total


def _chance(low: float, high: float) -> float:
    return cdf(-low) - cdf(-high) if low > 0.0 else cdf(high) - cdf(low)


class _Grid:
    """Panels from the levels on, and the rows of the integral from each node to the next date's nodes."""

    def __init__(self, contract: Watched, start: float) -> None:
        self._contract = contract
        self._start = start
        windows = self._windows()
        low = max(contract.lower, min(window[0] for window in windows))
        high = min(contract.upper, max(window[1] for window in windows))
        self._nodes, self._weights = self._panels(low, high)
        self._ranges = [(bisect_left(self._nodes, a), bisect_right(self._nodes, b)) for a, b in windows]
        self._rows: dict[tuple[Step, int], Row] = {}

    def _windows(self) -> list[tuple[float, float]]:
        """At each date the log prices that matter: beyond them lies about 1e-15 of the law."""
        mean, variance, windows = self._start, 0.0, []
        for step in self._contract.steps:
            mean += step.mean
            variance += step.deviation**2
            reach = _REACH * sqrt(variance)
            windows.append((mean - reach, mean + variance + reach))
        return windows

    def _panels(self, low: float, high: float) -> tuple[list[float], list[float]]:
        if low >= high:
            return [], []
        longest = _PANEL * min(step.deviation for step in self._contract.steps)
        count = max(1, -int(-(high - low) // longest))
        width = (high - low) / count
        if self._contract.lower == low and self._contract.upper > high:
            edges = [low + longest * i for i in range(count + 1)]
        elif self._contract.upper == high and self._contract.lower < low:
            edges = [high - longest * (count - i) for i in range(count + 1)]
        else:
            edges = [low + width * i for i in range(count + 1)]
        nodes, weights = [], []
        for left, right in pairwise(edges):
            half, middle = 0.5 * (right - left), 0.5 * (right + left)
            nodes += [middle + half * node for node, _ in _RULE]
            weights += [half * weight for _, weight in _RULE]
        return nodes, weights

    def price(self) -> float:
        contract = self._contract
        n = len(contract.steps)
        if contract.last is None:
            pieces = [*_inside(contract.final, contract.lower, contract.upper), *contract.exits[n - 1]]
            if n == 1:
                return mean_of_pieces(pieces, self._start, contract.steps[0])
            first, end = self._ranges[n - 2]
            values = [mean_of_pieces(pieces, x, contract.steps[n - 1]) for x in self._nodes[first:end]]
            date = n - 1
        else:
            first, end = self._ranges[n - 1]
            values = [mean_of_pieces(contract.final, x, contract.last) for x in self._nodes[first:end]]
            date = n
        for k in range(date - 1, 0, -1):
            step, exits = contract.steps[k], contract.exits[k]
            begin, stop = self._ranges[k - 1]
            values = [
                dot(self._row(step, i), first, values) + mean_of_pieces(exits, self._nodes[i], step)
                for i in range(begin, stop)
            ]
            first = begin
        step = contract.steps[0]
        inside = dot(self._coefficients(step, self._start), first, values)
        return inside + mean_of_pieces(contract.exits[0], self._start, step)

    def _row(self, step: Step, i: int) -> Row:
        row = self._rows.get((step, i))
        if row is None:
            row = self._rows[(step, i)] = self._coefficients(step, self._nodes[i])
        return row

    def _coefficients(self, step: Step, at: float) -> Row:
        """First node and weights of the discounted integral over the log price after ``step`` from ``at``."""
        centre, s = at + step.mean, step.deviation
        first = bisect_left(self._nodes, centre - _REACH * s)
        last = bisect_right(self._nodes, centre + reach_up(_REACH, s) * s)
        scale, factor = step.discount / (s * sqrt(2.0 * pi)), -0.5 / (s * s)
        near = zip(self._nodes[first:last], self._weights[first:last], strict=True)
        return first, [scale * w * exp(factor * (x - centre) ** 2) for x, w in near]


def _inside(pieces: Sequence[Piece], lower: float, upper: float) -> list[Piece]:
    """The parts of the pieces between the levels."""
    cut = (piece._replace(low=max(piece.low, lower), high=min(piece.high, upper)) for piece in pieces)
    return [piece for piece in cut if piece.low < piece.high]


# ---- contracts


def moves_at_dates(spec: Spec, times: Sequence[float] | None) -> bool:
    """Whether there are dates, the spot moves before each, and no step is tiny beside all that may happen."""
    market = spec.market
    if not times or market.dividends or spec.spot <= 0.0:
        return False
    spans = list(zip((0.0, *times[:-1]), times, strict=True))
    variances = [market.variance(0, a, b) for a, b in spans]
    drifts = sum(abs(market.carry(0, a, b)) for a, b in spans) + _MOVED * times[-1]
    total = sum(variances)
    least = min(variances)
    if total > LARGEST_VARIANCE:
        return False
    shortest = sqrt(least)
    return (
        shortest > _LEAST_DEVIATION and drifts + total + 2.0 * _REACH * sqrt(total) < _MOST_STEPS * shortest
    )


def _step(spec: Spec, start: float, end: float) -> Step:
    variance = spec.market.variance(0, start, end)
    mean = spec.market.carry(0, start, end) - 0.5 * variance
    return Step(mean, sqrt(variance), spec.market.discount(end) / spec.market.discount(start))


def steps_to(spec: Spec, times: Sequence[float]) -> tuple[list[Step], Step | None]:
    """The steps to the dates, and the one beyond the last where expiry is later."""
    last = _step(spec, times[-1], spec.expiry) if times[-1] < spec.expiry else None
    count = len(times)
    even = all(abs(t - times[-1] * (i + 1) / count) <= 1e-12 * times[-1] for i, t in enumerate(times))
    if even and is_constant(spec):
        return [_step(spec, 0.0, times[-1] / count)] * count, last
    return [_step(spec, a, b) for a, b in zip((0.0, *times[:-1]), times, strict=True)], last


def _log(level: float) -> float:
    return -inf if level <= 0.0 else log(level)


def option_pieces(kind: str, strike: float) -> list[Piece]:
    """The payoff of a call or put."""
    at = _log(strike)
    return [Piece(at, inf, 1.0, -strike)] if kind == "call" else [Piece(-inf, at, -1.0, strike)]


def _cash_outside(lower: float, upper: float, cash: float) -> list[Piece]:
    sides = ((-inf, lower), (upper, inf))
    return [Piece(low, high, 0.0, cash) for low, high in sides if low < high and cash != 0.0]


def barrier_serves(spec: Spec) -> bool:
    product = spec.product
    assert isinstance(product, Barrier | DoubleBarrier | Touch)
    return moves_at_dates(spec, product.monitoring.times)


def barrier(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, Barrier)
    level = product.barrier
    lower, upper = (-inf, _log(level.level)) if level.is_up else (_log(level.level), inf)
    return _barrier(spec, product, lower, upper)


def double_barrier(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, DoubleBarrier)
    return _barrier(spec, product, _log(product.barrier.lower), log(product.barrier.upper))


def _barrier(spec: Spec, product: Barrier | DoubleBarrier, lower: float, upper: float) -> float:
    """An out option; an in option is the plain one less an out option that pays back its rebate."""
    terms, start, market = product.barrier, _log(spec.spot), spec.market
    times = product.monitoring.times or ()
    steps, last = steps_to(spec, times)
    at_hit = terms.rebate_timing == "hit"
    touched = product.monitoring.include_t0 and not lower < start < upper
    if touched:
        if not terms.is_out:
            return vanilla(spec, product.type, product.strike)
        return terms.rebate * (1.0 if at_hit else market.discount(spec.expiry))
    final = option_pieces(product.type, product.strike)
    if not terms.is_out:
        final.append(Piece(-inf, inf, 0.0, -terms.rebate))
        contract = Watched(lower, upper, steps, [[]] * len(steps), final, last)
        return max(vanilla(spec, product.type, product.strike) - contract.price(start), 0.0)
    end = market.discount(spec.expiry)
    worth = [terms.rebate * (1.0 if at_hit else end / market.discount(time)) for time in times]
    exits = [_cash_outside(lower, upper, cash) for cash in worth]
    return Watched(lower, upper, steps, exits, final, last).price(start)


def touch(spec: Spec) -> float:
    product, market = spec.product, spec.market
    assert isinstance(product, Touch)
    times, level = product.monitoring.times or (), _log(product.level)
    lower, upper = (-inf, level) if product.direction == "up" else (level, inf)
    start, end = _log(spec.spot), market.discount(spec.expiry)
    is_hit = product.timing == "hit"
    if product.monitoring.include_t0 and not lower < start < upper:
        return 0.0 if product.touch == "no" else product.payout * (1.0 if is_hit else end)
    steps, last = steps_to(spec, times)
    if product.touch == "no":
        final = [Piece(-inf, inf, 0.0, product.payout)]
        return Watched(lower, upper, steps, [[]] * len(steps), final, last).price(start)
    worth = [product.payout * (1.0 if is_hit else end / market.discount(time)) for time in times]
    exits = [_cash_outside(lower, upper, cash) for cash in worth]
    return Watched(lower, upper, steps, exits, [], last).price(start)


def lookback_serves(spec: Spec) -> bool:
    """Equal dates to expiry under a constant market, and a level that the extreme must pass to count."""
    product = spec.product
    assert isinstance(product, Lookback)
    times = product.monitoring.times
    if not moves_at_dates(spec, times) or not is_constant(spec) or times is None:
        return False
    step = spec.expiry / len(times)
    equal = all(abs(t - step * (i + 1)) <= 1e-12 * spec.expiry for i, t in enumerate(times))
    return equal and (product.strike is not None or extreme_so_far(spec) is not None)


def lookback(spec: Spec) -> float:
    """Once the level is passed, Spitzer's identity gives the mean of the extreme over the dates left."""
    product = spec.product
    assert isinstance(product, Lookback) and product.monitoring.times is not None
    n = len(product.monitoring.times)
    known = extreme_so_far(spec)
    pick = max if product.of_maximum else min
    level = pick(v for v in (known, product.strike) if v is not None)
    means = means_of_extremes(spec, n, product.of_maximum)
    one, _ = steps_to(spec, product.monitoring.times)
    steps = [step._replace(discount=1.0) for step in one]
    at, sign = _log(level), 1.0 if product.of_maximum else -1.0
    lower, upper = (-inf, at) if product.of_maximum else (at, inf)
    low, high = (at, inf) if product.of_maximum else (-inf, at)
    exits = [[Piece(low, high, sign * means[n - i], -sign * level)] for i in range(1, n + 1)]
    excess = Watched(lower, upper, steps, exits, []).price(log(spec.spot))
    return settle(spec, level if known is None else known, level, excess)


def autocallable_serves(spec: Spec) -> bool:
    product = spec.product
    assert isinstance(product, Autocallable)
    return moves_at_dates(spec, product.observations.times)


def autocallable(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, Autocallable)
    times, upper, notional = product.observations.times, log(product.call_level), product.notional
    steps, last = steps_to(spec, times)
    exits = [
        [Piece(upper, inf, 0.0, notional * (1.0 + i * product.coupon))] for i in range(1, len(times) + 1)
    ]
    at = _log(product.protection)
    final = [Piece(-inf, at, notional / product.reference, 0.0), Piece(at, inf, 0.0, notional)]
    return Watched(-inf, upper, steps, exits, final, last).price(log(spec.spot))


_SOURCE = "Aitsahlia, Lai (1997); Gauss-Legendre panels from date to date"

METHODS = (
    Method(Barrier, BlackScholes, "recursion", _SOURCE, barrier, barrier_serves, step=0.03, rounding=1e-11),
    Method(
        DoubleBarrier,
        BlackScholes,
        "recursion",
        _SOURCE,
        double_barrier,
        barrier_serves,
        step=0.03,
        rounding=1e-11,
    ),
    Method(Touch, BlackScholes, "recursion", _SOURCE, touch, barrier_serves, step=0.03, rounding=1e-11),
    Method(
        Lookback, BlackScholes, "recursion", _SOURCE, lookback, lookback_serves, step=0.03, rounding=1e-11
    ),
    Method(
        Autocallable,
        BlackScholes,
        "recursion",
        _SOURCE,
        autocallable,
        autocallable_serves,
        step=0.03,
        rounding=1e-11,
    ),
)
