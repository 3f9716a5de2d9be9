"""Black-Scholes paths date by date: a loop draws, steps and keeps running statistics, all in one kernel.

A turn takes the two normals of a pair, so it goes two dates ahead; no array of dates is ever made. Greeks go
back through the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.dim import Dim
from engine.core.dtype import uint32
from engine.pricing.montecarlo import payoffs
from engine.pricing.montecarlo.controls import Control
from engine.pricing.montecarlo.factors import pair_of_normals
from engine.pricing.montecarlo.folds import Fold
from engine.pricing.montecarlo.greeks import PATHWISE, method_of
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Getter, Getters, Numbers
from engine.pricing.montecarlo.paths import Path, carry, carry_shift, start, variance, variance_shift
from engine.pricing.montecarlo.shifts import Shifts, Wanted
from engine.pricing.spec import BlackScholes, Simulation, Spec
from engine.tensor import Tensor
from engine.tracing.regions import loop

Pick = Callable[[Tensor], Tensor]
"""The number of one date from those of all dates."""


def walk_of(spec: Spec, control: Control | None, columns: Sequence[Wanted]) -> Walk | None:
    """How the paths of a request are walked; None where arrays of their dates are needed."""
    settings, folds = spec.simulation, payoffs.folds_of(spec)
    assert settings is not None
    rearranged = settings.antithetic or settings.moment_matching or settings.bridge != "none"
    if settings.qmc != "none" or rearranged:  # arrays of all draws
        return None
    if not isinstance(spec.model, BlackScholes) or spec.market.assets > 1 or len(grid_of(spec).times) < 2:
        return None
    if folds is None or any(method_of(spec, column) != PATHWISE for column in columns):
        return None
    beside = () if control is None else control.folds
    return Walk(tuple({fold.name: fold for fold in (*folds, *beside)}.values()))


@dataclass(frozen=True, slots=True)
class Draws:
    """What a walk draws from: the normals of [blocks, lanes] paths."""

    settings: Simulation
    key: Tensor
    blocks: Dim
    lanes: int

    @staticmethod
    def of(numbers: Numbers, settings: Simulation, blocks: Dim, lanes: int) -> Draws:
        return Draws(settings, numbers.graph.input("key", (2,), uint32), blocks, lanes)

    def pair(self, turn: Tensor | int) -> tuple[Tensor, Tensor]:
        return pair_of_normals(self.settings, self.key, turn, self.blocks, self.lanes)

    def each(self, x: Tensor) -> Tensor:
        """A number, or one of each path [blocks, 1, lanes], as [blocks, lanes]."""
        shape: tuple[Any, int] = self.blocks, self.lanes
        return (x.squeeze(1) if x.ndim == 3 else x).broadcast_to(*shape)


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
    log: Tensor
    before: Tensor
    variance: Tensor

    @property
    def spot(self) -> Tensor:
        return self.log.exp()

    def number(self, name: str, get: Getter) -> Tensor:
        return self.row.scalar(name, get)

    def column(self, name: str, get: Getters) -> Tensor:
        return self.row.column(name, get)


@dataclass(frozen=True, slots=True)
class Walk:
    """The dynamics of paths of which only ``folds`` and the end are kept."""

    folds: Sequence[Fold]

    def simulate(self, numbers: Numbers, draws: Draws, shifts: Shifts) -> Path:
        """The paths in the shifted market."""
        times = grid_of(numbers.spec).times
        begin, turns, steps = start(numbers, shifts, 0), len(times) // 2, _Steps.of(numbers, shifts)
        first = [draws.each(Tensor(fold.how.value.start, numbers.dtype)) for fold in self.folds]

        def step(pick: Pick, z: Tensor, x: Tensor, folded: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
            drift, deviation, gathered = steps.at(pick)
            after = x + (z.astype(x.dtype) * deviation + drift)
            date = Date(Row(numbers, pick), after, x, gathered)
            pairs = zip(self.folds, folded, strict=True)
            return after, [fold.how.value.step(total, fold.of(date)) for fold, total in pairs]

        def two_steps(turn: Tensor, carries: tuple[Tensor, list[Tensor]]) -> tuple[Tensor, list[Tensor]]:
            x, folded = carries
            for half, z in enumerate(draws.pair(turn)):
                x, folded = step(lambda dates, half=half: _halves(dates, turns)[half][turn], z, x, folded)  # type: ignore[misc]
            return x, folded

        x, folded = loop(turns, two_steps, (draws.each(begin), first)).carries
        if len(times) % 2:
            x, folded = step(lambda dates: dates[2 * turns, 0], draws.pair(turns)[0], x, folded)
        kept = {fold.name: total for fold, total in zip(self.folds, folded, strict=True)}
        return Path(times[-1:], numbers, shifts, [x.unsqueeze(1)], [begin], folded=kept)


def _halves(dates: Tensor, turns: int) -> list[Tensor]:
    """The numbers of the first and of the second date of each turn."""
    pairs = dates[: 2 * turns].reshape(turns, 2)
    return [pairs[:, 0], pairs[:, 1]]


@dataclass(frozen=True, slots=True)
class _Steps:
    """Drift, deviation and variance of the logarithm's steps, [dates, 1] each, computed before the walk.

    Shifts, which are zeros, add what they add to first order: √(v + dv) = √v + dv / (2 √v).
    """

    numbers: Numbers
    flat: Shifts
    drift: Tensor
    deviation: Tensor
    gathered: Tensor
    slope: Tensor

    @staticmethod
    def of(numbers: Numbers, shifts: Shifts) -> _Steps:
        gathered = variance(numbers, Shifts(), 0)
        drift, deviation = carry(numbers, Shifts(), 0) - gathered * 0.5, gathered.sqrt()
        flat = Shifts({key: x.squeeze(1) for key, x in shifts.lanes.items()})
        return _Steps(numbers, flat, drift, deviation, gathered, 0.5 / deviation)

    def at(self, pick: Pick) -> tuple[Tensor, Tensor, Tensor]:
        """Those of a date, as numbers or [blocks, lanes]."""
        drift, deviation, gathered = pick(self.drift), pick(self.deviation), pick(self.gathered)
        row = Row(self.numbers, pick)
        carried, more = carry_shift(row, self.flat, 0), variance_shift(row, self.flat, 0)
        if carried is not None:
            drift = drift + carried
        if more is not None:
            drift, deviation = drift - more * 0.5, deviation + more * pick(self.slope)
            gathered = gathered + more
        return drift, deviation, gathered
