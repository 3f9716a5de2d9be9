"""Levels along a path: knocked out or in, touched or not, and the extremes themselves.

Discrete contracts look at their dates alone. Those that are watched always see, beside the dates, the
probability that a Brownian bridge between two of them touched the level: for geometric Brownian motion there
is no error in it at any number of steps (Andersen and Brotherton-Ratcliffe 1996; for two levels the images of
Karatzas and Shreve, section 2.8).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from engine.pricing.montecarlo import extremes
from engine.pricing.montecarlo.folds import Bridge, Dates, Fold, How
from engine.pricing.montecarlo.grid import grid_of, pays_at_hit
from engine.pricing.montecarlo.paths import Path, discounts
from engine.pricing.spec import Spec
from engine.pricing.spec import products as p
from engine.tensor import Tensor, cat

IMAGES = 4  # on each side: with two levels less than a step's deviation apart, more would be needed


def touch(path: Path, product: p.Touch) -> Tensor:
    paid = path.number("payout", lambda spec: spec.product.payout)  # type: ignore[attr-defined]
    end = path.discount("expiry", lambda spec: spec.expiry)
    if product.touch == "no":
        return end * paid * _alive(path, product)
    if product.timing == "expiry":
        return end * paid * (1.0 - _alive(path, product))
    return paid * _at_hit(path, _survival(path, product))


def barrier(path: Path, product: p.Barrier | p.DoubleBarrier) -> Tensor:
    """The call or put where it lives, the rebate where it does not."""
    rule = product.barrier
    alive = _alive(path, product)
    end = path.discount("expiry", lambda spec: spec.expiry)
    strike = path.number("strike", lambda spec: spec.product.strike)  # type: ignore[attr-defined]
    last = path.last()
    gain = (last - strike if product.type == "call" else strike - last).relu()
    value = end * gain * (alive if rule.is_out else 1.0 - alive)
    if rule.rebate == 0.0:
        return value
    rebate = path.number("rebate", lambda spec: spec.product.barrier.rebate)  # type: ignore[attr-defined]
    if pays_at_hit(product):
        return value + rebate * _at_hit(path, _survival(path, product))
    return value + rebate * end * (1.0 - alive if rule.is_out else alive)


# ---- survival


def _levels(at: Dates | Path, product: Any) -> tuple[Tensor | None, Tensor | None]:
    """The lower and the upper level; None where there is none."""
    if isinstance(product, p.DoubleBarrier):
        lower = at.number("lower", lambda spec: spec.product.barrier.lower)  # type: ignore[attr-defined]
        upper = at.number("upper", lambda spec: spec.product.barrier.upper)  # type: ignore[attr-defined]
        return lower, upper
    if isinstance(product, p.Touch):
        level = at.number("level", lambda spec: spec.product.level)  # type: ignore[attr-defined]
        return (None, level) if product.direction == "up" else (level, None)
    level = at.number("level", lambda spec: spec.product.barrier.level)  # type: ignore[attr-defined]
    return (None, level) if product.barrier.is_up else (level, None)


def sees_each_date(spec: Spec) -> bool:
    """Whether a contract is watched always, or at all simulated dates and not today."""
    monitoring: Any = spec.product.monitoring  # type: ignore[attr-defined]
    if monitoring.times is None:
        return True
    return not monitoring.include_t0 and set(monitoring.times) == set(grid_of(spec).times)


def survival_of(product: Any) -> Fold:
    """The probability not to touch a level, of a contract that sees each date."""

    def surviving(at: Dates) -> Tensor:
        lower, upper = _levels(at, product)
        if product.monitoring.times is None:
            return _between_dates(at.bridge, lower, upper)
        return _inside(at.seen, *[None if level is None else level.log() for level in (lower, upper)])

    return Fold("survival", surviving, How.PRODUCT)


def _alive(path: Path, product: Any) -> Tensor:
    """The probability to live through all steps, [blocks, paths]."""
    if sees_each_date(path.numbers.spec):
        return path.over_dates(survival_of(product))
    return _survival(path, product).prod(1)


def _survival(path: Path, product: Any) -> Tensor:
    """The probability not to touch a level in each step, [blocks, dates, paths]; 0 or 1 at single dates."""
    monitoring, levels = product.monitoring, _levels(path, product)
    if monitoring.times is not None:
        return _inside(path.at_times(monitoring.times, today=monitoring.include_t0), *levels)
    return _between_dates(path.bridge, *levels)


def _inside(x: Tensor, lower: Tensor | None, upper: Tensor | None) -> Tensor:
    inside: Tensor | None = None
    for level, is_inside in ((lower, Tensor.__gt__), (upper, Tensor.__lt__)):
        if level is not None:
            own = is_inside(x, level)
            inside = own if inside is None else inside & own
    assert inside is not None
    return inside.astype(x.dtype)


def _between_dates(bridge: Bridge, lower: Tensor | None, upper: Tensor | None) -> Tensor:
    """The probability that a bridge touches no level."""
    before, after, total, of, _ = bridge
    if lower is not None and upper is not None:
        low = of(lower)
        return _between(before - low, after - low, of(upper) - low, total)
    if upper is not None:
        start, end = of(upper) - before, of(upper) - after
    else:
        assert lower is not None
        start, end = before - of(lower), after - of(lower)
    return -(start.relu() * end.relu() * -2.0 / total).expm1()


def _between(start: Tensor, end: Tensor, width: Tensor, total: Tensor) -> Tensor:
    start, end = (x.relu().minimum(width) for x in (start, end))
    survival: Tensor | None = None
    for k in range(-IMAGES, IMAGES + 1):
        shift = width * float(k)
        direct = (shift * (shift + end - start) * -2.0 / total).exp()
        mirrored = ((shift - start) * (shift - end) * -2.0 / total).exp()
        term = direct - mirrored
        survival = term if survival is None else survival + term
    assert survival is not None
    return survival.clamp(0.0, 1.0)


def _at_hit(path: Path, survival: Tensor) -> Tensor:
    """Today's value of 1 at the first touch; between two dates that is taken to be in the middle."""
    alive = survival.cumprod(1)
    dates = alive.shape[1]
    ones = alive[:, 0:1] * 0.0 + 1.0
    before = ones if dates == 1 else cat([ones, alive[:, : dates - 1]], 1)

    factor = discounts(path.numbers, path.shifts, "hit", _hit_times)
    return ((before - alive) * factor).sum(1)


def _hit_times(spec: Spec) -> list[float]:
    """When a touch is paid that is seen at each date, or in each step."""
    monitoring = spec.product.monitoring  # type: ignore[attr-defined]
    if monitoring.times is not None:
        return [*((0.0,) if monitoring.include_t0 else ()), *monitoring.times]
    times = (0.0, *grid_of(spec).contract)
    return [0.5 * (start + end) for start, end in pairwise(times)]


EXTREMES = {
    True: Fold("largest", lambda at: at.spot, How.MOST),
    False: Fold("smallest", lambda at: at.spot, How.LEAST),
}


def extreme(path: Path, of_maximum: bool) -> Tensor:
    """The largest or smallest value of the path, [blocks, paths], with what the contract has seen before.

    Between two dates it is drawn (extremes.py).
    """
    product: Any = path.numbers.spec.product
    monitoring = product.monitoring
    if monitoring.times is None:
        if path.is_smooth:
            return extremes.by_mean(path, of_maximum)
        spots = extremes.of_bridges(path, of_maximum)
        found = spots.max(1) if of_maximum else spots.min(1)
    elif sees_each_date(path.numbers.spec):
        found = path.over_dates(EXTREMES[of_maximum])
    else:
        spots = path.at_times(monitoring.times)
        found = spots.max(1) if of_maximum else spots.min(1)
    pick = Tensor.maximum if of_maximum else Tensor.minimum
    if product.extreme is not None:
        found = pick(found, path.number("extreme", lambda spec: spec.product.extreme))  # type: ignore[attr-defined]
    if monitoring.include_t0:
        found = pick(found, path.today())
    return found
