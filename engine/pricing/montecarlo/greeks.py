"""Greeks of each path: derivatives along it where the payoff is Lipschitz, likelihood ratios where it jumps.

With a path's normals held fixed, the derivative of the payoff is an unbiased sample if the payoff is
Lipschitz (pathwise). Where it jumps, the path is held fixed instead and its density is differentiated: the
sample is the payoff times the derivative of the density's logarithm (Broadie and Glasserman 1996). Second
derivatives take the first one along the path and the second one of the density.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.pricing.montecarlo.euler import may_vanish
from engine.pricing.montecarlo.factors import Factors
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.models import Dynamics, dynamics_of
from engine.pricing.montecarlo.no_density import why_none
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import Path
from engine.pricing.montecarlo.shifts import Shift, Shifts, Wanted
from engine.pricing.montecarlo.smoothing import is_at_end, is_smoothed, ratios_of
from engine.pricing.payoff_language import bends_with_today, is_smooth, read_payoff
from engine.pricing.spec import Cev, Heston, Spec
from engine.pricing.spec import products as p
from engine.record import Graph
from engine.tensor import Tensor

Pays = Callable[[Path], Tensor]

PATHWISE = "pathwise"
LIKELIHOOD = "likelihood ratio"
MIXED = "likelihood ratio of the pathwise derivative"
JUMPING = (p.Digital, p.Gap, p.Autocallable)
BENT_BY_VOL = (p.American, p.Bermudan, p.MaxCall, p.Compound, p.Quanto)
"""Where what is exercised, or its drift, depends on the volatility that is left."""
WATCHED = (p.Touch, p.Barrier, p.DoubleBarrier)


def method_of(spec: Spec, column: Wanted) -> str:
    """How a Greek is estimated."""
    if is_smoothed(spec):
        by_ratio = any(kind in ratios_of(spec) for kind, _ in column.shifts)
        given = "given what else is drawn" if is_at_end(spec) else "given survival"
        return f"{LIKELIHOOD if by_ratio else PATHWISE}, {given}"
    if not is_lipschitz(spec):
        return LIKELIHOOD
    return PATHWISE if len(column.shifts) == 1 else MIXED


def is_lipschitz(spec: Spec) -> bool:
    """Whether the payoff has no jumps along the path, and the path none where it is absorbed."""
    return not _jumps(spec) and not may_vanish(spec)


def _jumps(spec: Spec) -> bool:
    product = spec.product
    if isinstance(product, WATCHED):
        return product.monitoring.times is not None
    if isinstance(product, p.Custom):
        return not is_smooth(read_payoff(spec))
    return isinstance(product, JUMPING)


def refusal(spec: Spec, column: Wanted) -> str | None:
    """Why a Greek of a request cannot be estimated; None where it can."""
    model = spec.model
    if column.name.startswith("dv0") and not isinstance(model, Heston):
        return "the model has no variance of today"
    if any(kind == "vol" for kind, _ in column.shifts) and isinstance(model, Heston | Cev):
        return "the model has no volatility of its own"
    if is_smoothed(spec):
        return None
    if isinstance(spec.product, BENT_BY_VOL) and len(column.shifts) > 1 and column.shifts[1][0] == "vol":
        return "the payoff bends at a level that moves with the volatility"
    by_rate = any(kind == "rate" for kind, _ in column.shifts)
    if by_rate and not is_lipschitz(spec) and spec.market.pays(grid_of(spec).contract[0], spec.expiry):
        return "the payoff jumps with the asset, which moves with the value of dividends to come"
    held = column.shifts if _jumps(spec) else column.shifts[1:]
    if any(kind == "spot" for kind, _ in held) and _bends_with_today(spec):
        return "the payoff bends or jumps at a level that moves with today's spot"
    return why_none(spec) if held or may_vanish(spec) else None


def _bends_with_today(spec: Spec) -> bool:
    """Whether a payoff bends or jumps at a level that moves with today's spot, and no path makes up for it.

    Paths do for averages where log returns are normal; trapezoids give today's spot next to no weight. Where
    returns do not depend on the spot, what depends on them alone has no kink that moves.
    """
    is_normal = dynamics_of(spec).returns is not None
    is_free = is_normal and not spec.market.dividends
    match spec.product:
        case p.Custom():
            return bends_with_today(spec, "mixed" if is_free or _jumps(spec) else "picked")
        case p.Asian(averaging=averaging) if averaging.times is not None and 0.0 in averaging.times:
            return not is_normal or (averaging.kind == "geometric" and not is_free)
        case p.Lookback(monitoring=monitoring) if monitoring.times is not None:
            return monitoring.include_t0 and not is_free
        case p.ForwardStart(start=begin):
            return begin == 0.0 and not is_free
        case p.Cliquet():
            return not is_free
    return False


@dataclass(frozen=True, slots=True)
class Scene:
    """What samples are made of: paths and their payoff, for arrays of ``shape`` [blocks, 1, paths]. Densities
    are those of paths that ``dynamics`` make of ``factors``; a walk has none.
    """

    numbers: Numbers
    simulate: Callable[[Shifts], Path]
    pays: Pays
    shape: tuple[Any, int, int]
    dynamics: Dynamics
    factors: Factors | None = None

    @property
    def graph(self) -> Graph:
        return self.numbers.graph

    def lanes(self, columns: Sequence[Wanted], tag: str = "") -> Shifts:
        """A zero of its own for every path and shift."""
        found: dict[Shift, Tensor] = {}
        for column in columns:
            for kind, number in column.shifts:
                zero = self.numbers.scalar(f"shift {tag}{kind} {number}", lambda spec: 0.0)
                found.setdefault((kind, number), zero.broadcast_to(*self.shape))
        return Shifts(found)


def samples(scene: Scene, columns: Sequence[Wanted]) -> list[Tensor]:
    """The payoff of each path, then its part of each Greek, [blocks, paths]."""
    if not columns:
        return [scene.pays(scene.simulate(Shifts()))]
    if is_smoothed(scene.numbers.spec):
        return _smooth(scene, columns)
    is_twice = any(len(column.shifts) > 1 for column in columns)
    if is_lipschitz(scene.numbers.spec) and is_twice:
        return _apart(scene, columns) if _draws_extremes(scene.numbers.spec) else _held(scene, columns)
    along = scene.lanes(columns)
    is_smooth = is_lipschitz(scene.numbers.spec)
    y = _along(scene, scene.simulate(along)) if is_smooth else _weighted(scene, along, is_twice)
    return [y, *_derivatives(scene, y, columns, (along, along), None)]


def _draws_extremes(spec: Spec) -> bool:
    """Whether extremes between dates are drawn, so that second derivatives take the mean of some instead."""
    return isinstance(spec.product, p.Lookback) and spec.product.monitoring.times is None


def _apart(scene: Scene, columns: Sequence[Wanted]) -> list[Tensor]:
    """Second derivatives with means of extremes, and all else with those that are drawn."""
    firsts = [column for column in columns if len(column.shifts) == 1]
    seconds = [column for column in columns if len(column.shifts) > 1]
    y, *own = samples(scene, firsts)
    _, *more = _held(scene, seconds)
    names = [column.name for column in (*firsts, *seconds)]
    found = dict(zip(names, [*own, *more], strict=True))
    return [y, *[found[column.name] for column in columns]]


def _held(scene: Scene, columns: Sequence[Wanted]) -> list[Tensor]:
    """First derivatives along the path, and second ones of these while the path stays where it is."""
    along, beside = scene.lanes(columns), scene.lanes(columns, "density ")
    assert scene.factors is not None
    moved, ratio = scene.dynamics.density(scene.numbers, beside, scene.factors)
    path = scene.dynamics.simulate(scene.numbers, moved, along)
    y = _along(scene, replace(path, is_smooth=True))
    return [y, *_derivatives(scene, y, columns, (along, beside), ratio)]


def _smooth(scene: Scene, columns: Sequence[Wanted]) -> list[Tensor]:
    """First derivatives together and second ones together, of paths that move with no other shifts."""
    found: dict[str, Tensor] = {}
    for order in {len(column.shifts): None for column in columns}:
        own = [column for column in columns if len(column.shifts) == order]
        along = scene.lanes(own)
        y = _along(scene, scene.simulate(along))
        derivatives = _derivatives(scene, y, own, (along, along), None)
        found |= {column.name: value for column, value in zip(own, derivatives, strict=True)}
    return [y, *[found[column.name] for column in columns]]


def _along(scene: Scene, path: Path) -> Tensor:
    """The payoff of a path that moves with the market."""
    y = scene.pays(path)
    return y if path.weight is None else y * path.weight


def _weighted(scene: Scene, shifts: Shifts, is_twice: bool) -> Tensor:
    """The payoff of fixed paths times their density over what it was: a derivative of it is a sample.

    What a path gathers between the dates where it is fixed moves with the market, and so does its start. What
    is drawn there is smooth enough for second derivatives if these are wanted: ``is_twice``.
    """
    assert scene.factors is not None
    here = scene.simulate(Shifts())
    moved, ratio = scene.dynamics.density(scene.numbers, shifts, scene.factors)
    there = scene.dynamics.simulate(scene.numbers, moved, shifts)
    levels = None if here.levels is None else [x.detach() for x in here.levels]
    fixed = replace(there, logs=[x.detach() for x in here.logs], levels=levels, is_smooth=is_twice)
    return scene.pays(fixed) * ratio


def _derivatives(
    scene: Scene, y: Tensor, columns: Sequence[Wanted], shifts: tuple[Shifts, Shifts], ratio: Tensor | None
) -> list[Tensor]:
    """Of y: first derivatives along the path; second ones of these, times ``ratio`` where it is given.

    ``shifts`` are those of the path and those of its density.
    """
    along, beside = shifts
    order = list(along.lanes)
    firsts = dict(zip(order, scene.graph.differentiate(y, [along.lanes[key] for key in order]), strict=True))
    results = []
    for column in columns:
        value: Tensor = firsts[column.shifts[0]]
        if len(column.shifts) > 1:
            other = column.shifts[1]
            if ratio is None:
                value = scene.graph.differentiate(value, along.lanes[other])
            else:
                lanes = [along.lanes[other], beside.lanes[other]]
                first, second = scene.graph.differentiate(value.squeeze(1) * ratio, lanes)
                value = first + second
        value = value.squeeze(1)
        results.append(value if column.sign == 1.0 else -value)
    return results
