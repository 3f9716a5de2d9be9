"""Models that are stepped: constant elasticity of variance, and local volatility on a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any

from engine.pricing.montecarlo.factors import Factors
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Getters, Numbers
from engine.pricing.montecarlo.paths import carry, over_steps, start
from engine.pricing.montecarlo.shifts import SECOND, Shifts
from engine.pricing.spec import Cev, Spec
from engine.tensor import Tensor, where
from engine.tracing.regions import Turn, loop

SAFE = 8.0  # deviations: a step of CEV from further above 0 does not get there
REACH = 6.0  # deviations up to expiry: what is further above 0 does not get there
BEND = 0.5  # deviations of the asset over which a bend of the volatility is spread in second derivatives

_durations = over_steps(lambda spec, begin, end: end - begin)


@dataclass(frozen=True, slots=True)
class Scheme:
    """Steps of a state [blocks, paths]: given it, what the next one is made of is normal.

    ``law`` has its mean, its deviation and the variance that the asset's logarithm gathers, by turn and
    state. The next state is ``settled`` of it: it itself, or its positive part times the ``growth`` of that
    step, which a step may bend at 0 where ``is_near`` says so of state and deviation.
    """

    law: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
    settled: Callable[[Tensor, Tensor], Tensor]
    growth: Tensor | None = None
    is_near: Callable[[Tensor, Tensor], Tensor] | None = None


@dataclass(frozen=True, slots=True)
class Stepped:
    """A model that is stepped: its scheme in the shifted market, the asset of a state, and the state of the
    asset's logarithm.
    """

    scheme: Callable[[Numbers, Shifts, int], Scheme]
    asset: Callable[[Tensor], Tensor]
    state: Callable[[Tensor], Tensor]

    def path(
        self, numbers: Numbers, shifts: Shifts, factors: Factors, begin: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The asset at each date and the variance that its logarithm gathers, [blocks, dates, paths]."""
        normals = factors.normals[0]
        z, scheme = normals.permute(1, 0, 2), self.scheme(numbers, shifts, normals.shape[1])

        def step(turn: Tensor, x: Tensor) -> Turn:
            mean, deviation, spread = scheme.law(turn, x)
            after = scheme.settled(turn, mean + deviation * z[turn])
            return Turn(after, (after, spread))

        states, spreads = loop(normals.shape[1], step, _start(self.state(begin), normals)).stacked
        return self.asset(states.permute(1, 0, 2)), spreads.permute(1, 0, 2)

    def held(self, numbers: Numbers, shifts: Shifts, factors: Factors) -> tuple[Factors, Tensor]:
        """Factors that lead in the shifted market to where these lead, and the density over what it was.

        Both at the dates that the contract sees: on the way there a path gives way to the shift by the share
        of time that is left, so that all steps bear what one would weigh heavily. A step that gives way adds
        to its normal what is known before it, so it is as dense as it was.
        """
        normals = factors.normals[0]
        z, dates = normals.permute(1, 0, 2), normals.shape[1]
        here, there = (self.scheme(numbers, own, dates) for own in (Shifts(), shifts))
        seen = numbers.table("seen", _seen, numbers.dtype, (dates,))
        share = numbers.table("share of what is left", _shares, numbers.dtype, (dates,))
        begin = self.state(start(numbers, Shifts(), 0)), self.state(start(numbers, shifts, 0))
        x, y = (_start(own, normals) for own in begin)

        def step(turn: Tensor, state: tuple[Tensor, Tensor, Tensor]) -> Turn:
            x, y, log = state
            mean, deviation, _ = here.law(turn, x)
            moved, wide, _ = there.law(turn, y)
            end = mean + deviation * z[turn]
            grown = _grown(here, there, turn)
            goal, wide = end if grown is None else end * grown, where(wide > 0.0, wide, 1.0)
            stays = seen[turn] > x * 0.0
            if here.is_near is not None:
                stays = stays | here.is_near(x, deviation)
            gone = (x - y) * share[turn] / where(deviation > 0.0, deviation, 1.0)
            normal = where(stays, (goal - moved) / wide, z[turn] + gone)
            volume = wide.log() if grown is None else wide.log() - grown.log()
            log = log - normal * normal * 0.5 - where(stays, volume, 0.0)
            after = here.settled(turn, end)
            y = where(stays, after, there.settled(turn, moved + wide * normal))
            return Turn((after, y, log), normal)

        found = loop(dates, step, (x, y, x * 0.0))
        log = found.carries[2]
        return replace(factors, normals=[found.stacked.permute(1, 0, 2)]), (log - log.detach()).exp()


def may_vanish(spec: Spec) -> bool:
    """Whether paths may be absorbed at 0. There the asset is no smooth function of where it began.

    S^(1 - beta) / (1 - beta) diffuses by ``scale``.
    """
    model = spec.model
    if not isinstance(model, Cev) or spec.spot <= 0.0:
        return False
    longest = max(b - a for a, b in zip(grid_of(spec).starts, grid_of(spec).times, strict=True))
    apart = spec.spot ** (1.0 - model.beta) / model.scale if model.scale else inf
    return apart < max(REACH * (1.0 - model.beta) * sqrt(spec.expiry), SAFE * sqrt(longest))


def _grown(here: Scheme, there: Scheme, turn: Tensor) -> Tensor | None:
    """How much less is needed to grow to the same."""
    if here.growth is None or there.growth is None:
        return None
    return here.growth[turn] / there.growth[turn]


def _seen(spec: Spec) -> list[float]:
    grid = grid_of(spec)
    return [float(place in grid.seen) for place in range(len(grid.times))]


def _shares(spec: Spec) -> list[float]:
    """A step's part of the time that is left until the contract sees the path."""
    grid = grid_of(spec)
    ends = [next(time for time in grid.contract if time >= end) for end in grid.times]
    return [
        (end - begin) / (last - begin) for begin, end, last in zip(grid.starts, grid.times, ends, strict=True)
    ]


def _lengths(numbers: Numbers, shifts: Shifts) -> Tensor:
    dt = numbers.column("dt", _durations)
    later = shifts.get("time")
    if later is None:
        return dt
    first = numbers.column("first", lambda spec: [1.0, *[0.0] * (len(grid_of(spec).times) - 1)])
    return dt + later * first


def _turns(x: Tensor) -> Tensor:
    """Numbers of dates, [dates, 1] or [blocks, dates, paths], with the dates first: by turn."""
    return x.reshape(x.shape[0]) if x.ndim == 2 else x.permute(1, 0, 2)


def _start(begin: Tensor, z: Tensor) -> Tensor:
    return begin.broadcast_to(z.shape[0], 1, z.shape[2]).squeeze(1)


# ---- the models


def _cev(numbers: Numbers, shifts: Shifts, dates: int) -> Scheme:
    """dS = (r - q) S dt + scale S^beta dW by Euler steps of the discounted asset, absorbed at 0."""
    growth, dt = _turns(carry(numbers, shifts, 0).exp()), _turns(_lengths(numbers, shifts))
    scale = numbers.scalar("scale", lambda spec: spec.model.scale)  # type: ignore[attr-defined]
    root = dt.sqrt()
    beta = numbers.scalar("beta", lambda spec: spec.model.beta)  # type: ignore[attr-defined]

    def law(turn: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        lives = s > 0.0
        level = where(lives, s, 1.0)
        vol = scale * level.pow(beta)
        gathered = vol * vol / (level * level) * dt[turn]  # at 0 anything above 0: nothing lies near
        return s, vol * lives.astype(s.dtype) * root[turn], gathered

    def settled(turn: Tensor, end: Tensor) -> Tensor:
        return end.relu() * growth[turn]

    return Scheme(law, settled, growth, lambda s, deviation: s < deviation * SAFE)


def _local_vol(numbers: Numbers, shifts: Shifts, dates: int) -> Scheme:
    """Euler steps of the logarithm; the volatility is linear in S between the grid's spots."""
    drift, dt = _turns(carry(numbers, shifts, 0)), _turns(_lengths(numbers, shifts))
    moved = shifts.get("vol")
    volatility = _volatility(numbers, dates)

    def law(turn: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        vol = volatility(turn, x.exp())
        vol = vol if moved is None else vol + moved.squeeze(1)
        total = vol * vol * dt[turn]
        return x + drift[turn] - total * 0.5, total.sqrt(), total

    return Scheme(law, lambda turn, end: end)


def _volatility(numbers: Numbers, steps: int) -> Callable[[Tensor, Tensor], Tensor]:
    """The volatility at a step and spots, as a sum of ramps: each adds the change of slope at its spot.

    A ramp's second derivative is a mass at its spot, which paths miss: where second derivatives are taken, a
    bump of the same mass stands for it, as narrow as a part of the asset's deviation up to that step.
    """
    model: Any = numbers.spec.model
    is_bent = any(greek in SECOND for greek in numbers.spec.greeks)

    def by_step(name: str, get: Getters) -> Tensor:
        return numbers.table(name, get, numbers.dtype, (steps,))

    below = by_step("vols below", lambda spec: [_row(spec, step)[0] for step in range(steps)])
    ramps, bumps = [], []
    for k in range(len(model.spots)):
        knot = numbers.scalar(f"knot {k}", lambda spec, k=k: spec.model.spots[k])  # type: ignore[misc]
        slope = by_step(f"slopes {k}", lambda spec, k=k: [_slopes(spec, step)[k] for step in range(steps)])  # type: ignore[misc]
        ramps.append((knot, slope))
        if is_bent:
            tip = by_step(f"tips {k}", lambda spec, k=k: [_tip(spec, step, k) for step in range(steps)])  # type: ignore[misc]
            bumps.append((knot, tip, tip * slope))

    def volatility(turn: Tensor, s: Tensor) -> Tensor:
        total = below[turn] + s * 0.0
        for knot, slope in ramps:
            total = total + (s - knot).relu() * slope[turn]
        if not bumps:
            return total
        fixed = s.detach()
        bend = fixed * 0.0
        for knot, tip, mass in bumps:
            bend = bend + _bump((fixed - knot) * tip[turn]) * mass[turn]
        return total + (s - fixed) * (s - fixed) * bend * 0.5

    return volatility


def _bump(u: Tensor) -> Tensor:
    """A mass of 1 within 1 of 0, without a second moment: errors are of fourth order in its width."""
    square = u * u
    return (1.0 - square).relu() * (3.0 - square * 7.0) * (15.0 / 32.0)


def _row(spec: Spec, step: int) -> tuple[float, ...]:
    model: Any = spec.model
    begin = grid_of(spec).starts[step]
    place = next((i for i, until in enumerate(model.times) if begin < until), len(model.times) - 1)
    row: tuple[float, ...] = model.vols[place]
    return row


def _slopes(spec: Spec, step: int) -> list[float]:
    model: Any = spec.model
    row, spots = _row(spec, step), model.spots
    slopes = [(row[i + 1] - row[i]) / (spots[i + 1] - spots[i]) for i in range(len(spots) - 1)]
    return [after - before for before, after in zip([0.0, *slopes], [*slopes, 0.0], strict=True)]


def _tip(spec: Spec, step: int, k: int) -> float:
    """One over the width of a bump; 0, for none, at the first step, whose spot is no matter of chance."""
    begin, spot, vol = grid_of(spec).starts[step], spec.model.spots[k], _row(spec, step)[k]  # type: ignore[attr-defined]
    return 1.0 / (BEND * spot * vol * sqrt(begin)) if begin and vol else 0.0


CEV = Stepped(_cev, lambda s: s, Tensor.exp)
LOCAL_VOL = Stepped(_local_vol, Tensor.exp, lambda x: x)
