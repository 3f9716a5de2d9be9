"""Contracts that end at a level on a date: each path survives, and weighs the probability that it does.

A step's normal is drawn from the law that is left where no level is touched, so a path never ends early; it
weighs the product of the probabilities of that (P. Glasserman and J. Staum, Conditioning on one-step survival
for barrier option simulations, Operations Research 49, 2001). What the last step decides is replaced by its
mean. So nothing jumps: the price is smooth in the path, and derivatives along it are samples of Greeks (T.
Alm, B. Harrach, D. Harrach and M. Keller, A Monte Carlo pricing algorithm for autocallables that allows for
stable differentiation, Journal of Computational Finance 17, 2013).

Beside it goes the path that the same normals make without levels: what is knocked in is the plain option on
it less what is knocked out, and the mean of the plain option is known, so it is a control.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, pi, sqrt
from typing import Any, NamedTuple

from engine.core.dtype import float64
from engine.normal import inverse_normal
from engine.pricing.montecarlo.dividends import has_dividends, to_come
from engine.pricing.montecarlo.draws import normal_cdf
from engine.pricing.montecarlo.factors import Factors
from engine.pricing.montecarlo.grid import grid_of, pays_at_hit
from engine.pricing.montecarlo.models import Dynamics, Return
from engine.pricing.montecarlo.numbers import Getters, Inputs, Numbers
from engine.pricing.montecarlo.paths import Path, carry_shift, discounts, gathered, start
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.montecarlo.smoothing import ratios_of
from engine.pricing.montecarlo.walk import Pick, Row, Source, Stepped
from engine.pricing.spec import Spec
from engine.pricing.spec import products as p
from engine.tensor import Tensor
from engine.tracing.regions import loop

LEAST = 1e-140  # of a probability from which a normal is made: squares of its density are doubles
MOST = 1.0 - 2.0**-53
NARROW = 1e-24  # the least variance of a step
LOWEST, HIGHEST = 1e-37, 1e37  # levels that are none, in any dtype
State = tuple[Tensor, Tensor, Tensor]
"""Of each path that survives the logarithm, the weight, and what was paid."""


# ---- paths


def simulate(numbers: Numbers, source: Source, shifts: Shifts) -> Path:
    """Paths that survive up to the last date but one, and what the last step does."""
    product: Any = numbers.spec.product
    found = freely(numbers, source, shifts)
    if isinstance(product, p.Barrier | p.DoubleBarrier) and not product.barrier.is_out:
        return replace(found, folded={**(found.folded or {}), **_survivors(numbers, source, shifts)})
    return replace(found, folded=_survivors(numbers, source, shifts))


def freely(numbers: Numbers, source: Source, shifts: Shifts) -> Path:
    """Paths as they are without levels, up to the last date but one, and what the last step does."""
    along, beside = _parted(numbers.spec, shifts)
    steps, weight = source.steps(numbers, along)
    begin = start(numbers, shifts, 0)

    def step(pick: Pick, z: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, ratio = state
        drift, deviation = steps.at(pick)[:2]
        z, shift = z.astype(x.dtype), carry_shift(Row(numbers, pick), beside, 0)
        return x + (z * deviation + drift), ratio if shift is None else ratio * _ratio(z, shift / deviation)

    here, times = source.each(begin), grid_of(numbers.spec).contract
    x, ratio = source.along(len(times) - 1, step, (here, here * 0.0 + 1.0))
    mean, deviation = _last_step(numbers, source, steps, beside)
    folded = {"free": x + mean, "free ratio": ratio, "deviation": deviation}
    return Path(times[-2:-1], numbers, shifts, [x.unsqueeze(1)], [begin], weight=weight, folded=folded)


def _survivors(numbers: Numbers, source: Source, shifts: Shifts) -> Mapping[str, Tensor]:
    """Of paths that survive: the logarithm before the last step and its mean, the weight, what was paid."""
    along, beside = _parted(numbers.spec, shifts)
    steps, flat = source.steps(numbers, along)[0], shifts.flat()

    def step(pick: Pick, z: Tensor, state: State) -> State:
        x, alive, paid = state
        drift, deviation = steps.at(pick)[:2]
        row = Row(numbers, pick)
        levels, due, shift = _levels(row, flat), _due(row, flat), carry_shift(row, beside, 0)
        chance, kept = surviving(z, *[_scaled(level, x + drift, deviation) for level in levels])
        kept = kept.astype(x.dtype)
        if due is not None:
            left = chance if shift is None else _chance(levels, x + drift + shift, deviation)
            paid = paid + alive * (1.0 - left) * due
        alive = alive * chance
        if shift is not None:
            alive = alive * _ratio(kept, shift / deviation)
        return x + (kept * deviation + drift), alive, paid

    here = source.each(start(numbers, shifts, 0))
    dates = len(grid_of(numbers.spec).contract) - 1
    x, alive, paid = source.along(dates, step, (here, *_today(numbers, here)))
    mean, deviation = _last_step(numbers, source, steps, beside)
    return {"surviving": x + mean, "alive": alive, "paid": paid, "deviation": deviation}


def _last_step(numbers: Numbers, source: Source, steps: Stepped, beside: Shifts) -> tuple[Tensor, Tensor]:
    """Its mean and its deviation, [blocks, paths]."""
    last = _at(len(grid_of(numbers.spec).contract) - 1)
    drift, deviation = steps.at(last)[:2]
    shift = carry_shift(Row(numbers, last), beside, 0)
    return source.each(drift if shift is None else drift + shift), source.each(deviation)


def _parted(spec: Spec, shifts: Shifts) -> tuple[Shifts, Shifts]:
    """Shifts that move steps, and those that move their probability, for all dates and for one."""
    ratios = ratios_of(spec)
    along = {key: x for key, x in shifts.lanes.items() if key[0] not in ratios}
    beside = {key: x for key, x in shifts.lanes.items() if key[0] in ratios}
    return Shifts(along), Shifts(beside).flat()


def _ratio(z: Tensor, shift: Tensor) -> Tensor:
    """The density of a step of normal ``z``, its mean shifted by so many deviations, over what it was: to
    second order in the shift, which is zero.
    """
    first = z * shift
    return 1.0 + first + (first * first - shift * shift) * 0.5


def _chance(levels: tuple[Tensor | None, Tensor | None], mean: Tensor, deviation: Tensor) -> Tensor:
    return Ending(mean, deviation).chance(Piece(*levels, None, None))


def _at(k: int) -> Pick:
    """The numbers of date ``k``."""
    return lambda dates: dates[k, 0] if dates.ndim == 2 else dates[:, k]


def _scaled(level: Tensor | None, mean: Tensor, deviation: Tensor) -> Tensor | None:
    return None if level is None else (level - mean) / deviation


def surviving(z: Tensor, lower: Tensor | None, upper: Tensor | None) -> tuple[Tensor, Tensor]:
    """The probability that a normal lies between two numbers, and the one there that ``z`` becomes.

    Of all normals that lie there as large a part is smaller as of all normals is smaller than ``z``.
    """
    if upper is None:
        assert lower is not None
        chance, kept = surviving(-z, None, -lower)
        return chance, -kept
    chance = normal_cdf(upper)
    below = normal_cdf(z)
    if lower is None:
        return chance, _normal_at(below * chance)
    outside = normal_cdf(lower)
    chance = (chance - outside).relu()
    return chance, _normal_at(outside + below * chance)


def _normal_at(share: Tensor) -> Tensor:
    """The inverse of the normal distribution, with its first two derivatives: 1 / φ(z) and z / φ(z)²."""
    share = share.astype(float64).clamp(LEAST, MOST)
    z = inverse_normal(share.detach())
    moved = (share - share.detach()) * (z * z * 0.5).exp() * sqrt(2.0 * pi)
    return z + (moved + moved * moved * z * 0.5)


@dataclass(frozen=True, slots=True)
class Arrays:
    """Paths of normals and steps that stand in arrays, [blocks, dates, paths].

    Steps between two dates that the contract sees are one: given what else is drawn they are normal together.
    """

    numbers: Numbers
    dynamics: Dynamics
    factors: Factors

    def steps(self, numbers: Numbers, shifts: Shifts) -> tuple[Stepped, Tensor | None]:
        own = self._returns(shifts)
        mean, variance = own.mean, own.variance
        if self._is_finer:
            seen = grid_of(numbers.spec).seen
            mean, variance = gathered(mean, seen), gathered(variance, seen).clamp(NARROW)
        return _Arrayed(mean, variance, variance.sqrt()), own.weight

    def each(self, x: Tensor) -> Tensor:
        blocks, _, paths = self.factors.normals[0].shape
        return (x.squeeze(1) if x.ndim == 3 else x).broadcast_to(blocks, paths)

    def along(self, dates: int, step: Callable[[Pick, Tensor, Any], Any], begin: Any) -> Any:
        if dates == 0:
            return begin
        z = self._normals().permute(1, 0, 2)

        def turned(turn: Tensor, state: Any) -> Any:
            def pick(x: Tensor) -> Tensor:
                return (x.reshape(x.shape[0]) if x.ndim == 2 else x.permute(1, 0, 2))[turn]

            return step(pick, z[turn], state)

        return loop(dates, turned, begin).carries

    @property
    def _is_finer(self) -> bool:
        grid = grid_of(self.numbers.spec)
        return len(grid.seen) < len(grid.times)

    def _returns(self, shifts: Shifts) -> Return:
        assert self.dynamics.returns is not None
        return self.dynamics.returns(self.numbers, shifts, self.factors)[0]

    def _normals(self) -> Tensor:
        """That of each step, of those that are one."""
        z = self.factors.normals[0]
        if not self._is_finer:
            return z
        variance, seen = self._returns(Shifts()).variance, grid_of(self.numbers.spec).seen
        return gathered(z * variance.sqrt(), seen) / gathered(variance, seen).clamp(NARROW).sqrt()


@dataclass(frozen=True, slots=True)
class _Arrayed:
    mean: Tensor
    variance: Tensor
    deviation: Tensor

    def at(self, pick: Pick) -> tuple[Tensor, Tensor, Tensor]:
        return pick(self.mean), pick(self.deviation), pick(self.variance)


# ---- what a date says


def _levels(row: Inputs, shifts: Shifts) -> tuple[Tensor | None, Tensor | None]:
    """The logarithms of the levels at dates, of what moves; None where there is none."""
    spec = row.spec
    found: list[Tensor | None] = []
    for name, reach in (("lower", LOWEST), ("upper", HIGHEST)):
        of = _level_of(spec.product, name)
        if of is None:
            found.append(None)
        elif has_dividends(spec):
            levels = row.column(f"{name} levels", _at_watched(of, reach))
            paid = to_come(row, shifts, "dates", lambda own: grid_of(own).contract)
            found.append((levels - paid).clamp(LOWEST).log())
        else:
            found.append(row.column(f"{name} levels", _logs_of(_at_watched(of, reach))))
    lower, upper = found
    return lower, upper


def _logs_of(levels: Getters) -> Getters:
    return lambda spec: [log(level) for level in levels(spec)]


def _level_of(product: Any, name: str) -> Callable[[Any], float] | None:
    """The lower or the upper level of a product."""
    is_upper = name == "upper"
    match product:
        case p.DoubleBarrier():
            return lambda own: getattr(own.barrier, name)
        case p.Barrier(barrier=barrier):
            return (lambda own: own.barrier.level) if barrier.is_up == is_upper else None
        case p.Touch(direction=direction):
            return (lambda own: own.level) if (direction == "up") == is_upper else None
    return (lambda own: own.call_level) if is_upper else None


def _at_watched(level: Callable[[Any], float], reach: float) -> Getters:
    """A level at each date, and ``reach`` where it is not looked at."""

    def each(spec: Spec) -> list[float]:
        own, watched = max(level(spec.product), LOWEST), set(watched_times(spec))
        return [own if time in watched else reach for time in grid_of(spec).contract]

    return each


def watched_times(spec: Spec) -> tuple[float, ...]:
    """The dates at which a contract looks at its levels."""
    product: Any = spec.product
    if isinstance(product, p.Digital | p.Gap):
        return ()
    schedule = product.observations if isinstance(product, p.Autocallable) else product.monitoring
    times: tuple[float, ...] = schedule.times
    return times


def _due(row: Inputs, shifts: Shifts) -> Tensor | None:
    """Today's value of what is paid at dates if a level is touched there; None where nothing is."""
    product = row.spec.product
    if not isinstance(product, p.Autocallable) and not pays_at_hit(product):
        return None
    due = row.column("amounts at hit", _amounts)
    return due * discounts(row, shifts, "hit", lambda spec: grid_of(spec).contract)


def _amounts(spec: Spec) -> list[float]:
    product: Any = spec.product
    if isinstance(product, p.Autocallable):
        places = {time: k for k, time in enumerate(product.observations.times, 1)}
        times = grid_of(spec).contract
        return [product.notional * (1.0 + product.coupon * places.get(time, 0)) for time in times]
    amount = product.payout if isinstance(product, p.Touch) else product.barrier.rebate
    return [amount] * len(grid_of(spec).contract)


def _today(numbers: Numbers, here: Tensor) -> tuple[Tensor, Tensor]:
    """The weight with which paths begin, and what is paid today, where today's spot is looked at."""
    product: Any = numbers.spec.product
    ones, nothing = here * 0.0 + 1.0, here * 0.0
    monitoring = getattr(product, "monitoring", None)
    if monitoring is None or not monitoring.include_t0:
        return ones, nothing
    alive = ones * numbers.scalar("alive today", _is_alive)
    if not pays_at_hit(product):
        return alive, nothing
    return alive, (1.0 - alive) * numbers.scalar("amount today", lambda spec: _amounts(spec)[0])


def _is_alive(spec: Spec) -> float:
    lower, upper = (_level_of(spec.product, name) for name in ("lower", "upper"))
    above = lower is None or spec.spot > lower(spec.product)
    below = upper is None or spec.spot < upper(spec.product)
    return float(above and below)


# ---- what the last step pays


class Piece(NamedTuple):
    """The amount asset · X + cash where log X lies between two numbers."""

    low: Tensor | None
    high: Tensor | None
    asset: Tensor | None
    cash: Tensor | None


@dataclass(frozen=True, slots=True)
class Ending:
    """A last step: the mean and the deviation of the logarithm at its end, [blocks, paths]."""

    mean: Tensor
    deviation: Tensor

    def worth(self, pieces: Sequence[Piece]) -> Tensor:
        """The mean of an amount."""
        total: Tensor = self.mean * 0.0
        for piece in pieces:
            if piece.cash is not None:
                total = total + piece.cash * self.chance(piece)
            if piece.asset is not None:
                variance = self.deviation * self.deviation
                held = Ending(self.mean + variance, self.deviation).chance(piece)
                total = total + piece.asset * (self.mean + variance * 0.5).exp() * held
        return total

    def chance(self, piece: Piece) -> Tensor:
        """The probability that the logarithm lies in a piece."""
        below = None if piece.high is None else normal_cdf((piece.high - self.mean) / self.deviation)
        if piece.low is None:
            return self.mean * 0.0 + 1.0 if below is None else below
        above = normal_cdf((self.mean - piece.low) / self.deviation)
        return above if below is None else (below + above - 1.0).relu()


def levels_at_end(path: Path) -> tuple[Tensor | None, Tensor | None]:
    """The levels at expiry; none where they are not looked at."""
    spec = path.numbers.spec
    if spec.expiry not in watched_times(spec):
        return None, None
    row = Row(path.numbers, _at(len(grid_of(path.numbers.spec).contract) - 1))
    return _levels(row, path.shifts.flat())


def due_at_end(path: Path) -> Tensor:
    """Today's value of what is paid where a level is touched at expiry."""
    due = _due(Row(path.numbers, _at(len(grid_of(path.numbers.spec).contract) - 1)), path.shifts.flat())
    assert due is not None
    return due


def ending(path: Path, name: str) -> Ending:
    """The last step of the paths that are ``surviving``, or of those that go ``free``."""
    assert path.folded is not None
    return Ending(path.folded[name], path.folded["deviation"])
