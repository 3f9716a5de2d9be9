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
from engine.tensor import Tensor, cat

_TINY = 1e-300
_durations = over_steps(lambda spec, begin, end: end - begin)


def _lengths(numbers: Numbers, shifts: Shifts) -> Tensor:
    dt = numbers.column("dt", _durations)
    later = shifts.get("time")
    if later is None:
        return dt
    first = numbers.column("first", lambda spec: [1.0, *[0.0] * (len(grid_of(spec).times) - 1)])
    return dt + later * first


def cev(numbers: Numbers, shifts: Shifts, factors: Factors, begin: Tensor) -> tuple[Tensor, Tensor]:
    """dS = (r - q) S dt + scale S^beta dW by Euler steps of the discounted asset, absorbed at 0."""
    growth = carry(numbers, shifts, 0).exp()
    dt = _lengths(numbers, shifts)
    scale = numbers.scalar("scale", lambda spec: spec.model.scale)  # type: ignore[attr-defined]
    beta = numbers.scalar("beta", lambda spec: spec.model.beta)  # type: ignore[attr-defined]
    z = factors.normals[0]
    s = begin.exp().broadcast_to(z.shape[0], 1, z.shape[2])
    levels, spreads = [], []
    for step in range(z.shape[1]):
        own = slice(step, step + 1)
        span = dt[own] if dt.ndim == 2 else dt[:, own]
        drift = growth[own] if growth.ndim == 2 else growth[:, own]
        alive = (s > 0.0).astype(s.dtype)
        vol = scale * s.clamp(_TINY).pow(beta) * alive
        spreads.append(vol * vol / (s * s).clamp(_TINY) * span)
        s = (s + vol * span.sqrt() * z[:, own]).relu() * drift
        levels.append(s)
    return cat(levels, 1), cat(spreads, 1)


def local_vol(numbers: Numbers, shifts: Shifts, factors: Factors, begin: Tensor) -> tuple[Tensor, Tensor]:
    """Euler steps of the logarithm; the volatility is linear in S between the grid's spots."""
    drift, dt = carry(numbers, shifts, 0), _lengths(numbers, shifts)
    z = factors.normals[0]
    x = begin.broadcast_to(z.shape[0], 1, z.shape[2])
    logs, spreads = [], []
    for step in range(z.shape[1]):
        own = slice(step, step + 1)
        span = dt[own] if dt.ndim == 2 else dt[:, own]
        mean = drift[own] if drift.ndim == 2 else drift[:, own]
        vol = shifts.moved(_volatility(numbers, step, x.exp()), "vol")
        total = vol * vol * span
        x = x + mean - total * 0.5 + total.sqrt() * z[:, own]
        logs.append(x)
        spreads.append(total)
    return cat(logs, 1).exp(), cat(spreads, 1)


def _volatility(numbers: Numbers, step: int, spots: Tensor) -> Tensor:
    """The row of a step as a sum of ramps: each adds the change of slope at its spot."""
    knots = len(numbers.spec.model.spots)  # type: ignore[attr-defined]
    value = numbers.scalar(f"vol {step} below", lambda spec: _row(spec, step)[0])
    if knots == 1:
        return value.broadcast_to(*spots.shape)
    places = numbers.table("knots", lambda spec: spec.model.spots, numbers.dtype, (knots,))  # type: ignore[attr-defined]
    slopes = numbers.table(f"slopes {step}", lambda spec: _slopes(spec, step), numbers.dtype, (knots,))
    ramps = (spots.unsqueeze(3) - places).relu() * slopes
    return ramps.sum(3) + value


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


Step = Callable[[Tensor], Tensor]
