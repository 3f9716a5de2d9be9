"""Paths of the models whose steps are exact, as recorded graphs over [blocks, dates, paths]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from engine.pricing.montecarlo.dividends import has_dividends, to_come
from engine.pricing.montecarlo.folds import Bridge, Fold
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Getter, Getters, Inputs, Numbers
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import Cev, Spec
from engine.tensor import Tensor, cat

_NARROW = 1e-300  # the variance of an asset that stays at 0


@dataclass(frozen=True)
class Path:
    """Simulated paths: ``logs`` of what moves of each asset at the contract's times, [blocks, dates, paths].

    ``start`` is the logarithm today, ``variance`` what the logarithm gathers from one time to the next: both
    broadcast against [blocks, 1, paths] and [blocks, dates, paths]. ``levels`` are the assets themselves
    where they may fall to zero or below, so that logarithms do not tell all. ``weight`` has the value 1 and
    the derivative of the probability of what was drawn beside normals, [blocks, paths]. Where a path
    ``is_smooth``, the mean of its extreme in the first step stands for what would be drawn. A path that was
    walked date by date has its last date alone, and what was ``folded`` on the way.
    """

    times: tuple[float, ...]
    numbers: Numbers
    shifts: Shifts
    logs: Sequence[Tensor]
    start: Sequence[Tensor]
    variance: Sequence[Tensor] = field(default=())
    uniforms: Tensor | None = None
    levels: Sequence[Tensor] | None = None
    weight: Tensor | None = None
    is_smooth: bool = False
    folded: Mapping[str, Tensor] | None = None

    def spots(self, asset: int = 0) -> Tensor:
        """The asset at the contract's times, [blocks, dates, paths]."""
        moving = self.logs[asset].exp() if self.levels is None else self.levels[asset]
        return moving if self.to_come is None else moving + self.to_come

    def at(self, date: int, asset: int = 0) -> Tensor:
        """The asset at one of the contract's times, [blocks, paths]."""
        moving, paid = self.moving_at(date, asset), self.to_come
        if paid is None:
            return moving
        return moving + (paid[date, 0] if paid.ndim == 2 else paid[:, date])

    def moving_at(self, date: int, asset: int = 0) -> Tensor:
        """What moves of the asset, without dividends to come, at one of the times, [blocks, paths]."""
        return self.logs[asset][:, date].exp() if self.levels is None else self.levels[asset][:, date]

    @property
    def to_come(self) -> Tensor | None:
        """What dividends after each of the times are worth there; None where there are none."""
        if not has_dividends(self.numbers.spec):
            return None
        places = [grid_of(self.numbers.spec).contract.index(time) for time in self.times]

        def times(spec: Spec) -> list[float]:
            return [grid_of(spec).contract[place] for place in places]

        return to_come(self.numbers, self.shifts, f"{len(places)} dates", times)

    def seen_logs(self) -> Tensor:
        """The logarithm of the asset at the contract's times, [blocks, dates, paths]."""
        return self.logs[0] if self.to_come is None else self.spots().log()

    def seen_start(self) -> Tensor:
        """The logarithm of the asset today; broadcasts against [blocks, 1, paths]."""
        if not has_dividends(self.numbers.spec):
            return self.start[0]
        return (self.start[0].exp() + to_come(self.numbers, self.shifts, "today", lambda spec: (0.0,))).log()

    def last(self, asset: int = 0) -> Tensor:
        """The asset at the last time, [blocks, paths]."""
        return self.at(len(self.times) - 1, asset)

    def over_dates(self, fold: Fold) -> Tensor:
        """What a fold makes of all dates, [blocks, paths]."""
        if self.folded is not None:
            return self.folded[fold.name]
        values = fold.of(_AllDates(self))
        return values.squeeze(1) if values.shape[1] == 1 else fold.how.value.whole(values)

    def at_times(self, times: Sequence[float], asset: int = 0, *, today: bool = False) -> Tensor:
        """The asset at some of the times, and today before them if asked, [blocks, dates, paths]."""
        places = [place for place, time in enumerate(self.times) if time in times]
        spots = picked(self.spots(asset), places)
        if not today:
            return spots
        first = self.seen_start() if asset == 0 else self.start[asset]
        return cat([first.broadcast_to(spots.shape[0], 1, spots.shape[2]).exp(), spots], 1)

    def today(self, asset: int = 0) -> Tensor:
        """The asset today; broadcasts against [blocks, paths]."""
        return _per_path((self.seen_start() if asset == 0 else self.start[asset]).exp())

    def before(self, asset: int = 0) -> Tensor:
        """The logarithm at the beginning of each step."""
        x = self.logs[asset]
        first = self.start[asset].broadcast_to(x.shape[0], 1, x.shape[2])
        return first if x.shape[1] == 1 else cat([first, x[:, : x.shape[1] - 1]], 1)

    @property
    def bridge(self) -> Bridge:
        """The steps: those of CEV are normal in the asset, which may end at 0, others in its logarithm."""
        total, before = self.variance[0], self.before()
        if not isinstance(self.numbers.spec.model, Cev):
            return Bridge(before, self.logs[0], total, Tensor.log, Tensor.exp)
        before = before.exp()
        total = (total * before * before).clamp(_NARROW)
        return Bridge(before, self.spots(), total, lambda x: x, Tensor.relu)

    def number(self, name: str, get: Callable[[Spec], float]) -> Tensor:
        """A number of the contract."""
        return self.numbers.scalar(name, get)

    def discount(self, name: str, time: Callable[[Spec], float]) -> Tensor:
        """Today's value of 1 paid at a time; broadcasts against [blocks, paths]."""
        factor = self.numbers.scalar(f"discount {name}", lambda spec: spec.market.discount(time(spec)))
        exponent: Tensor | None = None
        rate, later = self.shifts.get("rate"), self.shifts.get("time")
        if rate is not None:
            exponent = rate * self.numbers.scalar(f"time {name}", time)
            if later is not None:
                exponent = exponent + rate * later
        if later is not None:
            first = later * self.numbers.scalar("rate now", lambda spec: spec.market.rate.values[0])
            exponent = first if exponent is None else exponent + first
        return factor if exponent is None else factor * _per_path((-exponent).exp())


def discounts(inputs: Inputs, shifts: Shifts, name: str, times: Callable[[Spec], Sequence[float]]) -> Tensor:
    """Today's value of 1 paid at each of some times, [times, 1] or with one of each path."""
    factor = inputs.column(
        f"{name} discounts", lambda spec: [spec.market.discount(time) for time in times(spec)]
    )
    rate, later = shifts.get("rate"), shifts.get("time")
    if rate is not None:
        factor = factor * (-(rate * inputs.column(f"{name} times", times))).exp()
    if later is not None:
        now = inputs.scalar("rate now", lambda spec: spec.market.rate.values[0])
        factor = factor * (-(later * (now if rate is None else now + rate))).exp()
    return factor


@dataclass(frozen=True, slots=True)
class _AllDates:
    """All dates of a path at once."""

    path: Path

    @property
    def log(self) -> Tensor:
        return self.path.logs[0]

    @property
    def before(self) -> Tensor:
        return self.path.before()

    @property
    def spot(self) -> Tensor:
        return self.path.spots()

    @property
    def seen(self) -> Tensor:
        return self.path.seen_logs()

    @property
    def seen_before(self) -> Tensor:
        x = self.seen
        first = self.path.seen_start().broadcast_to(x.shape[0], 1, x.shape[2])
        return first if x.shape[1] == 1 else cat([first, x[:, : x.shape[1] - 1]], 1)

    @property
    def variance(self) -> Tensor:
        return self.path.variance[0]

    @property
    def bridge(self) -> Bridge:
        return self.path.bridge

    def number(self, name: str, get: Getter) -> Tensor:
        return self.path.number(name, get)

    def column(self, name: str, get: Getters) -> Tensor:
        return self.path.numbers.column(name, get)


def _per_path(x: Tensor) -> Tensor:
    return x.squeeze(1) if x.ndim == 3 else x


def picked(x: Tensor, places: Sequence[int], axis: int = 1) -> Tensor:
    """The dates at ``places``, which rise; dates are axis 1 of what has a value for each path."""
    if list(places) == list(range(x.shape[axis])):
        return x
    runs: list[list[int]] = []
    for place in places:
        if runs and runs[-1][-1] + 1 == place:
            runs[-1].append(place)
        else:
            runs.append([place])
    parts = [taken(x, axis, run[0], len(run)) for run in runs]
    return parts[0] if len(parts) == 1 else cat(parts, axis)


def taken(x: Tensor, axis: int, first: int, count: int) -> Tensor:
    """``count`` neighbours along an axis."""
    return x[first : first + count] if axis == 0 else x[:, first : first + count]


def gathered(x: Tensor, seen: Sequence[int]) -> Tensor:
    """Sums between the dates at ``seen``."""
    axis = x.ndim - 2
    total = picked(x.cumsum(axis), seen, axis)
    if len(seen) == 1:
        return total
    count = len(seen)
    rest = taken(total, axis, 1, count - 1) - taken(total, axis, 0, count - 1)
    return cat([taken(total, axis, 0, 1), rest], axis)


# ---- what the assets gather in a step


def over_steps(integral: Callable[[Spec, float, float], float]) -> Callable[[Spec], list[float]]:
    """A function of a request's market between two times, for each step of its grid."""

    def each(spec: Spec) -> list[float]:
        grid = grid_of(spec)
        return [integral(spec, begin, end) for begin, end in zip(grid.starts, grid.times, strict=True)]

    return each


_durations = over_steps(lambda spec, begin, end: end - begin)


def _first(spec: Spec) -> list[float]:
    """1 for the first step, which is longer when all dates move away, and 0 for the others."""
    return [1.0, *[0.0] * (len(grid_of(spec).times) - 1)]


def carry(numbers: Inputs, shifts: Shifts, asset: int) -> Tensor:
    """The integral of r - q over each step."""
    carried = over_steps(lambda spec, begin, end: spec.market.carry(asset, begin, end))
    total, more = numbers.column(f"carry {asset}", carried), carry_shift(numbers, shifts, asset)
    return total if more is None else total + more


def carry_shift(numbers: Inputs, shifts: Shifts, asset: int) -> Tensor | None:
    """What the shifts add to it."""
    parts = []
    rate, dividend, later = shifts.get("rate"), shifts.get("yield", asset), shifts.get("time")
    if rate is not None:
        parts.append(rate * numbers.column("dt", _durations))
    if dividend is not None:
        parts.append(-(dividend * numbers.column("dt", _durations)))
    if later is not None:
        now = numbers.scalar(
            f"carry now {asset}",
            lambda spec: spec.market.rate.values[0] - spec.market.yields[asset].values[0],
        )
        parts.append(later * now * numbers.column("first", _first))
    return _added(parts)


def variance(numbers: Inputs, shifts: Shifts, asset: int) -> Tensor:
    """The integral of the squared volatility over each step."""
    gathered = over_steps(lambda spec, begin, end: spec.market.variance(asset, begin, end))
    total, more = numbers.column(f"variance {asset}", gathered), variance_shift(numbers, shifts, asset)
    return total if more is None else total + more


def variance_shift(numbers: Inputs, shifts: Shifts, asset: int) -> Tensor | None:
    """What the shifts add to it."""
    twice_vol = over_steps(lambda spec, begin, end: 2.0 * spec.market.vols[asset].integral(begin, end))
    parts = []
    vol, later = shifts.get("vol", asset), shifts.get("time")
    if vol is not None:
        parts.append(vol * numbers.column(f"twice vol {asset}", twice_vol))
        parts.append(vol * vol * numbers.column("dt", _durations))
    if later is not None:
        now = numbers.scalar(f"variance now {asset}", lambda spec: spec.market.vols[asset].values[0] ** 2)
        parts.append(later * now * numbers.column("first", _first))
    return _added(parts)


def _added(parts: Sequence[Tensor]) -> Tensor | None:
    return reduce(Tensor.__add__, parts) if parts else None


def start(numbers: Numbers, shifts: Shifts, asset: int) -> Tensor:
    """The logarithm of what moves of an asset today: the asset less the value of dividends to come."""
    spot = numbers.scalar(f"spot {asset}", lambda spec: spec.market.spots[asset])
    moved = shifts.moved(spot, "spot", asset)
    if asset == 0 and has_dividends(numbers.spec):
        paid = to_come(numbers, shifts, "today", lambda spec: (0.0,))
        moved = moved - (paid[0, 0] if paid.ndim == 2 else paid)
    return moved.log()


def summed(steps: Tensor) -> Tensor:
    """The running sum over dates."""
    return steps if steps.shape[1] == 1 else steps.cumsum(1)
