"""Greeks of each path: derivatives along it where the payoff is Lipschitz, likelihood ratios where it jumps.

With a path's normals held fixed, the derivative of the payoff is an unbiased sample if the payoff is Lipschitz
(pathwise). Where it jumps, the path is held fixed instead and its density is differentiated: the sample is the
payoff times the derivative of the density's logarithm (Broadie and Glasserman 1996). Second derivatives take
the first one along the path and the second one of the density.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.pricing.montecarlo.factors import Factors
from engine.pricing.montecarlo.models import Dynamics
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import Path, log_density
from engine.pricing.montecarlo.shifts import Shift, Shifts, Wanted
from engine.pricing.payoff_language import is_smooth, read_payoff
from engine.pricing.spec import Spec
from engine.pricing.spec import products as p
from engine.tensor import Tensor

Pays = Callable[[Path], Tensor]

PATHWISE = "pathwise"
LIKELIHOOD = "likelihood ratio"
MIXED = "likelihood ratio of the pathwise derivative"
JUMPING = (p.Digital, p.Gap, p.Autocallable)
WATCHED = (p.Touch, p.Barrier, p.DoubleBarrier)


def method_of(spec: Spec, column: Wanted) -> str:
    """How a Greek is estimated."""
    if not is_lipschitz(spec):
        return LIKELIHOOD
    return PATHWISE if len(column.shifts) == 1 else MIXED


def is_lipschitz(spec: Spec) -> bool:
    """Whether the payoff has no jumps along the path."""
    product = spec.product
    if isinstance(product, WATCHED):
        return product.monitoring.times is None
    if isinstance(product, p.Custom):
        return is_smooth(read_payoff(spec))
    return not isinstance(product, JUMPING)


def needs_second(columns: Sequence[Wanted]) -> bool:
    return any(len(column.shifts) > 1 for column in columns)


def _lanes(numbers: Numbers, columns: Sequence[Wanted], shape: tuple[Any, int, int], tag: str = "") -> Shifts:
    """A zero for every path and shift."""
    found: dict[Shift, Tensor] = {}
    for column in columns:
        for kind, number in column.shifts:
            name = f"shift {tag}{kind} {number}"
            zero = numbers.scalar(name, lambda spec: 0.0)
            found.setdefault((kind, number), zero.broadcast_to(*shape))
    return Shifts(found)


def first_order(
    numbers: Numbers,
    dynamics: Dynamics,
    factors: Factors,
    columns: Sequence[Wanted],
    pays: Pays,
    shape: tuple[Any, int, int],
) -> list[Tensor]:
    """Payoffs and first derivatives, [blocks, paths] each."""
    shifts = _lanes(numbers, columns, shape)
    if is_lipschitz(numbers.spec) or not columns:
        y = pays(dynamics.path(numbers, shifts, factors))
        objective = y
    else:
        y = objective = _weighted(numbers, dynamics, factors, shifts, pays)
    return [y, *_derivatives(numbers, objective, shifts, columns)]


def _weighted(numbers: Numbers, dynamics: Dynamics, factors: Factors, shifts: Shifts, pays: Pays) -> Tensor:
    """The payoff of fixed paths times their density over what it was: a derivative of it is a sample."""
    fixed = _fixed(dynamics.path(numbers, Shifts(), factors), shifts)
    _, density = log_density(fixed, shifts)
    return pays(fixed) * (density - density.detach()).exp()


def _fixed(path: Path, shifts: Shifts) -> Path:
    logs = [x.detach() for x in path.logs]
    return Path(path.grid, path.numbers, shifts, logs, path.start, path.variance, path.uniforms)


def _derivatives(
    numbers: Numbers, objective: Tensor, shifts: Shifts, columns: Sequence[Wanted]
) -> list[Tensor]:
    if not columns:
        return []
    lanes = [shifts.lanes[column.shifts[0]] for column in columns]
    found = numbers.graph.differentiate(objective, lanes)
    return [_signed(x.squeeze(1), column) for x, column in zip(found, columns, strict=True)]


def _signed(x: Tensor, column: Wanted) -> Tensor:
    return x if column.sign == 1.0 else -x


def second_order(
    numbers: Numbers,
    dynamics: Dynamics,
    factors: Factors,
    columns: Sequence[Wanted],
    pays: Pays,
    shape: tuple[Any, int, int],
) -> list[Tensor]:
    """Payoffs with first and second derivatives, [blocks, paths] each."""
    graph = numbers.graph
    along = _lanes(numbers, columns, shape)
    if not is_lipschitz(numbers.spec):
        y = _weighted(numbers, dynamics, factors, along, pays)
        beside, weight = along, None
    else:
        beside = _lanes(numbers, columns, shape, "density ")
        fixed = _fixed(dynamics.path(numbers, Shifts(), factors), beside)
        normals, density = log_density(fixed, beside)
        y = pays(dynamics.path(numbers, along, Factors([normals], factors.uniforms)))
        weight = (density - density.detach()).exp()
    order = list(along.lanes)
    firsts = dict(zip(order, graph.differentiate(y, [along.lanes[key] for key in order]), strict=True))
    results = [y]
    for column in columns:
        first = firsts[column.shifts[0]]
        if len(column.shifts) == 1:
            results.append(_signed(first.squeeze(1), column))
            continue
        other = column.shifts[1]
        if weight is None:
            results.append(graph.differentiate(first, along.lanes[other]).squeeze(1))
        else:
            objective = first.squeeze(1) * weight
            both = graph.differentiate(objective, [along.lanes[other], beside.lanes[other]])
            results.append((both[0] + both[1]).squeeze(1))
    return results
