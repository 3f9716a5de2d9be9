"""Models that are stepped: constant elasticity of variance, and local volatility on a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.pricing.montecarlo.factors import Factors
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import carry, over_steps
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import Spec
from engine.tensor import Tensor
from engine.tracing.regions import Turn, loop

_TINY = 1e-300
_durations = over_steps(lambda spec, begin, end: end - begin)


def _lengths(numbers: Numbers, shifts: Shifts) -> Tensor:
    dt = numbers.column("dt", _durations)
    later = shifts.get("time")
    if later is None:
        return dt
    first = numbers.column("first", lambda spec: [1.0, *[0.0] * (len(grid_of(spec).times) - 1)])
    return dt + later * first


def _turns(x: Tensor) -> Tensor:
    """Numbers of dates, [dates, 1] or [blocks, dates, paths], with the dates first."""
    return x.reshape(x.shape[0], 1, 1) if x.ndim == 2 else x.permute(1, 0, 2)


def _start(begin: Tensor, z: Tensor) -> Tensor:
    return begin.broadcast_to(z.shape[0], 1, z.shape[2]).squeeze(1)


def cev(numbers: Numbers, shifts: Shifts, factors: Factors, begin: Tensor) -> tuple[Tensor, Tensor]:
    """dS = (r - q) S dt + scale S^beta dW by Euler steps of the discounted asset, absorbed at 0."""
    growth, dt = _turns(carry(numbers, shifts, 0).exp()), _turns(_lengths(numbers, shifts))
    scale = numbers.scalar("scale", lambda spec: spec.model.scale)  # type: ignore[attr-defined]
    beta = numbers.scalar("beta", lambda spec: spec.model.beta)  # type: ignore[attr-defined]
    normals = factors.normals[0]
    z = normals.permute(1, 0, 2)

    def step(turn: Tensor, s: Tensor) -> Turn:
        vol = scale * s.clamp(_TINY).pow(beta) * (s > 0.0).astype(s.dtype)
        spread = vol * vol / (s * s).clamp(_TINY) * dt[turn]
        after = (s + vol * dt[turn].sqrt() * z[turn]).relu() * growth[turn]
        return Turn(after, (after, spread))

    levels, spreads = loop(normals.shape[1], step, _start(begin.exp(), normals)).stacked
    return levels.permute(1, 0, 2), spreads.permute(1, 0, 2)


def local_vol(numbers: Numbers, shifts: Shifts, factors: Factors, begin: Tensor) -> tuple[Tensor, Tensor]:
    """Euler steps of the logarithm; the volatility is linear in S between the grid's spots."""
    drift, dt = _turns(carry(numbers, shifts, 0)), _turns(_lengths(numbers, shifts))
    normals = factors.normals[0]
    z = normals.permute(1, 0, 2)
    moved = shifts.get("vol")
    volatility = _volatility(numbers, normals.shape[1])

    def step(turn: Tensor, x: Tensor) -> Turn:
        vol = volatility(turn, x.exp())
        vol = vol if moved is None else vol + moved.squeeze(1)
        total = vol * vol * dt[turn]
        after = x + drift[turn] - total * 0.5 + total.sqrt() * z[turn]
        return Turn(after, (after, total))

    logs, spreads = loop(normals.shape[1], step, _start(begin, normals)).stacked
    return logs.permute(1, 0, 2).exp(), spreads.permute(1, 0, 2)


def _volatility(numbers: Numbers, steps: int) -> Callable[[Tensor, Tensor], Tensor]:
    """The volatility at a step and spots, as a sum of ramps: each adds the change of slope at its spot."""
    spots = numbers.spec.model.spots  # type: ignore[attr-defined]
    below = numbers.table("vols below", _below, numbers.dtype, (steps,))
    knots = numbers.table("knots", lambda spec: spec.model.spots, numbers.dtype, (len(spots),))  # type: ignore[attr-defined]
    slopes = numbers.table("slopes", _all_slopes, numbers.dtype, (steps, len(spots)))

    def volatility(turn: Tensor, s: Tensor) -> Tensor:
        row = slopes[turn]
        total = below[turn] + s * 0.0
        for k in range(len(spots)):
            total = total + (s - knots[k]).relu() * row[k]
        return total

    return volatility


def _below(spec: Spec) -> list[float]:
    return [_row(spec, step)[0] for step in range(len(grid_of(spec).times))]


def _all_slopes(spec: Spec) -> list[float]:
    return [slope for step in range(len(grid_of(spec).times)) for slope in _slopes(spec, step)]


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
