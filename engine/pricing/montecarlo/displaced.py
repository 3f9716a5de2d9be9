"""Displaced diffusion: the forward to expiry, moved by a constant, is lognormal (Rubinstein 1983)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp

from engine.pricing.montecarlo.factors import Factors
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import start, summed, variance
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import Spec
from engine.tensor import Tensor, cat


@dataclass(frozen=True, slots=True)
class _Terms:
    """The moved forward of today, what takes forwards to each date back to spots there, the displacement, and
    the variance of each step.
    """

    base: Tensor
    back: Tensor
    moved: Tensor
    total: Tensor


def path(numbers: Numbers, shifts: Shifts, factors: Factors, begin: Tensor) -> tuple[Tensor, Tensor]:
    """The asset at each date and the variance of the moved forward's logarithm, [blocks, dates, paths]."""
    own = _terms(numbers, shifts, begin)
    x = summed(factors.normals[0] * own.total.sqrt() - own.total * 0.5)
    return (own.base * x.exp() - own.moved) * own.back, own.total


def held(numbers: Numbers, shifts: Shifts, factors: Factors) -> tuple[Factors, Tensor]:
    """Factors that lead in the shifted market to where these lead, and the density over what it was."""
    here, there = (_terms(numbers, own, start(numbers, own, 0)) for own in (Shifts(), shifts))
    x = summed(factors.normals[0] * here.total.sqrt() - here.total * 0.5).detach()
    forward = here.base * x.exp()
    share = here.back / there.back
    needed = (forward - here.moved) * share + here.moved
    y = x + (needed / forward).log() - (there.base / here.base).log()
    before = y[:, :1] * 0.0
    if y.shape[1] > 1:
        before = cat([before, y[:, : y.shape[1] - 1]], 1)
    z = (y - before + there.total * 0.5) / there.total.sqrt()
    log = (z * z + there.total.log()).sum(1) * -0.5 + (forward * share / needed).log().sum(1)
    return replace(factors, normals=[z]), (log - log.detach()).exp()


def _terms(numbers: Numbers, shifts: Shifts, begin: Tensor) -> _Terms:
    total = variance(numbers, shifts, 0)
    moved = numbers.scalar("displacement", lambda spec: spec.model.shift)  # type: ignore[attr-defined]

    def to_expiry(spec: Spec) -> float:
        return spec.market.carry(0, 0.0, spec.expiry)

    def from_each(spec: Spec) -> list[float]:
        return [exp(-spec.market.carry(0, time, spec.expiry)) for time in grid_of(spec).times]

    growth = numbers.scalar("growth to expiry", to_expiry)
    span = numbers.scalar("span", lambda spec: spec.expiry)
    rest = numbers.column("spans left", lambda spec: [spec.expiry - time for time in grid_of(spec).times])
    back = numbers.column("back from expiry", from_each)
    for kind, sign in (("rate", 1.0), ("yield", -1.0)):
        shift = shifts.get(kind)
        if shift is not None:
            growth = growth + shift * span * sign
            back = back * (shift * rest * -sign).exp()
    later = shifts.get("time")
    if later is not None:
        growth = growth + later * numbers.scalar(
            "carry now 0", lambda spec: spec.market.rate.values[0] - spec.market.yields[0].values[0]
        )
    return _Terms((begin + growth).exp() + moved, back, moved, total)
