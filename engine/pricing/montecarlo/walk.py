"""Black-Scholes paths date by date: a loop draws, steps and keeps running statistics, all in one kernel.

A turn mostly takes the two normals of a pair, so it goes two dates ahead; no array of dates is ever made.
Greeks go back through the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.core.dim import Dim
from engine.core.dtype import uint32
from engine.pricing.montecarlo import payoffs
from engine.pricing.montecarlo.controls import Control
from engine.pricing.montecarlo.dividends import has_dividends, to_come
from engine.pricing.montecarlo.factors import pair_of_normals
from engine.pricing.montecarlo.folds import Bridge, Fold
from engine.pricing.montecarlo.greeks import PATHWISE, method_of
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Getter, Getters, Numbers
from engine.pricing.montecarlo.paths import Path, carry, carry_shift, start, variance, variance_shift
from engine.pricing.montecarlo.shifts import Shifts, Wanted
from engine.pricing.montecarlo.smoothing import is_smoothed
from engine.pricing.spec import BlackScholes, Simulation, Spec
from engine.tensor import Tensor, where
from engine.tracing.regions import loop

Pick = Callable[[Tensor], Tensor]
"""The number of one date from those of all dates."""


def is_walked(spec: Spec, control: Control | None, columns: Sequence[Wanted]) -> bool:
    """Whether the paths of a request are walked; else arrays of their dates are needed."""
    settings = spec.simulation
    assert settings is not None
    rearranged = settings.antithetic or settings.moment_matching or settings.bridge != "none"
    if settings.qmc != "none" or rearranged:  # arrays of all draws
        return False
    if not isinstance(spec.model, BlackScholes) or spec.market.assets > 1 or len(grid_of(spec).times) < 2:
        return False
    if is_smoothed(spec):
        return True
    return payoffs.folds_of(spec) is not None and all(method_of(spec, own) == PATHWISE for own in columns)


class Stepped(Protocol):
    """Drift, deviation and variance of the logarithm's step to a date, numbers or [blocks, paths]."""

    def at(self, pick: Pick) -> tuple[Tensor, Tensor, Tensor]: ...


class Source(Protocol):
    """What paths are made of, date by date: normals, and the law of each step."""

    def steps(self, numbers: Numbers, shifts: Shifts) -> tuple[Stepped, Tensor | None]:
        """The steps, and the weight of what else was drawn."""
        ...

    def each(self, x: Tensor) -> Tensor: ...

    def along(self, dates: int, step: Callable[[Pick, Tensor, Any], Any], begin: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Draws:
    """What a walk draws from: the normals of [blocks, lanes] paths.

    A turn takes both normals of a pair, unless steps are long, as those are that survive and have to go back:
    then pairs are drawn twice, which is little beside the rest, and what a compiler has to build is half as
    large.
    """

    settings: Simulation
    key: Tensor
    blocks: Dim
    lanes: int
    is_long: bool

    @staticmethod
    def of(numbers: Numbers, blocks: Dim, lanes: int) -> Draws:
        spec, key = numbers.spec, numbers.graph.input("key", (2,), uint32)
        assert spec.simulation is not None
        return Draws(spec.simulation, key, blocks, lanes, bool(spec.greeks) and is_smoothed(spec))

    def pair(self, turn: Tensor | int) -> tuple[Tensor, Tensor]:
        return pair_of_normals(self.settings, self.key, turn, self.blocks, self.lanes)

    def each(self, x: Tensor) -> Tensor:
        """A number, or one of each path [blocks, 1, lanes], as [blocks, lanes]."""
        shape: tuple[Any, int] = self.blocks, self.lanes
        return (x.squeeze(1) if x.ndim == 3 else x).broadcast_to(*shape)

    def steps(self, numbers: Numbers, shifts: Shifts) -> tuple[Stepped, None]:
        """The law of each step; nothing else is drawn that would have a weight."""
        return Steps.of(numbers, shifts), None

    def along(self, dates: int, step: Callable[[Pick, Tensor, Any], Any], begin: Any) -> Any:
        """What ``step`` makes of the first dates one after the other, from ``begin`` on."""
        return (self._one_by_one if self.is_long else self._by_pairs)(dates, step, begin)

    def _by_pairs(self, dates: int, step: Callable[[Pick, Tensor, Any], Any], begin: Any) -> Any:
        turns = dates // 2

        def two(turn: Tensor, state: Any) -> Any:
            for half, z in enumerate(self.pair(turn)):
                state = step(lambda x, half=half: _halves(x, turns)[half][turn], z, state)  # type: ignore[misc]
            return state

        state = loop(turns, two, begin).carries if turns else begin
        if dates % 2:
            state = step(lambda x: x[2 * turns, 0], self.pair(turns)[0], state)
        return state

    def _one_by_one(self, dates: int, step: Callable[[Pick, Tensor, Any], Any], begin: Any) -> Any:
        def one(turn: Tensor, state: Any) -> Any:
            first, second = self.pair(turn // 2)
            z = where(turn % 2 == 0, first, second)
            return step(lambda x: x.reshape(x.shape[0])[turn], z, state)

        return loop(dates, one, begin).carries if dates else begin


@dataclass(frozen=True, slots=True)
class Row:
    """The numbers of a single date, as ``carry`` and ``variance`` ask for them."""

    numbers: Numbers
    pick: Pick

    @property
    def spec(self) -> Spec:
        return self.numbers.spec

    def scalar(self, name: str, get: Getter) -> Tensor:
        return self.numbers.scalar(name, get)

    def column(self, name: str, get: Getters) -> Tensor:
        return self.pick(self.numbers.column(name, get))


@dataclass(frozen=True, slots=True)
class Date:
    """A date of a walk, [blocks, lanes]."""

    row: Row
    shifts: Shifts
    log: Tensor
    before: Tensor
    variance: Tensor

    @property
    def spot(self) -> Tensor:
        moving = self.log.exp()
        if not has_dividends(self.row.spec):
            return moving
        return moving + to_come(self.row, self.shifts, "dates", lambda spec: grid_of(spec).times)

    @property
    def seen(self) -> Tensor:
        return self.spot.log() if has_dividends(self.row.spec) else self.log

    @property
    def seen_before(self) -> Tensor:
        if not has_dividends(self.row.spec):
            return self.before
        paid = to_come(self.row, self.shifts, "starts", lambda spec: grid_of(spec).starts)
        return (self.before.exp() + paid).log()

    @property
    def bridge(self) -> Bridge:
        return Bridge(self.before, self.log, self.variance, Tensor.log, Tensor.exp)

    def number(self, name: str, get: Getter) -> Tensor:
        return self.row.scalar(name, get)

    def column(self, name: str, get: Getters) -> Tensor:
        return self.row.column(name, get)


@dataclass(frozen=True, slots=True)
class Walk:
    """The dynamics of paths of which only ``folds`` and the end are kept."""

    folds: Sequence[Fold]

    @staticmethod
    def of(spec: Spec, control: Control | None) -> Walk:
        """What a payoff and its control take from the way."""
        own, beside = payoffs.folds_of(spec) or (), () if control is None else control.folds
        return Walk(tuple({fold.name: fold for fold in (*own, *beside)}.values()))

    def simulate(self, numbers: Numbers, draws: Source, shifts: Shifts) -> Path:
        """The paths in the shifted market."""
        times, begin = grid_of(numbers.spec).times, start(numbers, shifts, 0)
        steps, flat = draws.steps(numbers, shifts)[0], shifts.flat()
        first = [draws.each(Tensor(fold.how.value.start, numbers.dtype)) for fold in self.folds]

        def step(pick: Pick, z: Tensor, state: tuple[Tensor, list[Tensor]]) -> tuple[Tensor, list[Tensor]]:
            x, folded = state
            drift, deviation, gathered = steps.at(pick)
            after = x + (z.astype(x.dtype) * deviation + drift)
            date = Date(Row(numbers, pick), flat, after, x, gathered)
            pairs = zip(self.folds, folded, strict=True)
            return after, [fold.how.value.step(total, fold.of(date)) for fold, total in pairs]

        x, folded = draws.along(len(times), step, (draws.each(begin), first))
        kept = {fold.name: total for fold, total in zip(self.folds, folded, strict=True)}
        return Path(times[-1:], numbers, shifts, [x.unsqueeze(1)], [begin], folded=kept)


def _halves(dates: Tensor, turns: int) -> list[Tensor]:
    """The numbers of the first and of the second date of each turn."""
    pairs = dates[: 2 * turns].reshape(turns, 2)
    return [pairs[:, 0], pairs[:, 1]]


@dataclass(frozen=True, slots=True)
class Steps:
    """Drift, deviation and variance of the logarithm's steps, [dates, 1] each, computed before the walk.

    Shifts, which are zeros, add what they add to second order: √(v + dv) = √v + m - m² / (2 √v), where m is
    dv / (2 √v).
    """

    numbers: Numbers
    flat: Shifts
    drift: Tensor
    deviation: Tensor
    gathered: Tensor
    slope: Tensor

    @staticmethod
    def of(numbers: Numbers, shifts: Shifts) -> Steps:
        gathered = variance(numbers, Shifts(), 0)
        drift, deviation = carry(numbers, Shifts(), 0) - gathered * 0.5, gathered.sqrt()
        return Steps(numbers, shifts.flat(), drift, deviation, gathered, 0.5 / deviation)

    def at(self, pick: Pick) -> tuple[Tensor, Tensor, Tensor]:
        """Those of a date, as numbers or [blocks, lanes]."""
        drift, deviation, gathered = pick(self.drift), pick(self.deviation), pick(self.gathered)
        row = Row(self.numbers, pick)
        carried, more = carry_shift(row, self.flat, 0), variance_shift(row, self.flat, 0)
        if carried is not None:
            drift = drift + carried
        if more is not None:
            moved = more * pick(self.slope)
            drift, deviation = drift - more * 0.5, deviation + (moved - moved * moved * pick(self.slope))
            gathered = gathered + more
        return drift, deviation, gathered
