"""Levels along a path: knocked out or in, touched or not, and the extremes themselves.

Discrete contracts look at their dates alone. Those that are watched always see, beside the dates, the
probability that a Brownian bridge between two of them touched the level: for geometric Brownian motion there
is no error in it at any number of steps (Andersen and Brotherton-Ratcliffe 1996; for two levels the images of
Karatzas and Shreve, section 2.8).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from engine.pricing.montecarlo.grid import grid_of, pays_at_hit
from engine.pricing.montecarlo.paths import Path
from engine.pricing.spec import Spec
from engine.pricing.spec import products as p
from engine.tensor import Tensor, cat

IMAGES = 4  # on each side: with two levels less than a step's deviation apart, more would be needed


def touch(path: Path, product: p.Touch) -> Tensor:
    level = path.number("level", lambda spec: spec.product.level)  # type: ignore[attr-defined]
    paid = path.number("payout", lambda spec: spec.product.payout)  # type: ignore[attr-defined]
    survival = _survival(
        path,
        product.monitoring,
        level if product.direction == "down" else None,
        level if product.direction == "up" else None,
    )
    end = path.discount("expiry", lambda spec: spec.expiry)
    if product.touch == "no":
        return end * paid * _alive(survival)
    if product.timing == "expiry":
        return end * paid * (1.0 - _alive(survival))
    return paid * _at_hit(path, survival)


def barrier(path: Path, product: p.Barrier) -> Tensor:
    rule = product.barrier
    level = path.number("level", lambda spec: spec.product.barrier.level)  # type: ignore[attr-defined]
    survival = _survival(
        path, product.monitoring, None if rule.is_up else level, level if rule.is_up else None
    )
    return _option(path, product, survival)


def double_barrier(path: Path, product: p.DoubleBarrier) -> Tensor:
    lower = path.number("lower", lambda spec: spec.product.barrier.lower)  # type: ignore[attr-defined]
    upper = path.number("upper", lambda spec: spec.product.barrier.upper)  # type: ignore[attr-defined]
    return _option(path, product, _survival(path, product.monitoring, lower, upper))


def _option(path: Path, product: Any, survival: Tensor) -> Tensor:
    """The call or put where it lives, the rebate where it does not."""
    rule = product.barrier
    alive = _alive(survival)
    end = path.discount("expiry", lambda spec: spec.expiry)
    strike = path.number("strike", lambda spec: spec.product.strike)  # type: ignore[attr-defined]
    last = path.last()
    gain = (last - strike if product.type == "call" else strike - last).relu()
    value = end * gain * (alive if rule.is_out else 1.0 - alive)
    if rule.rebate == 0.0:
        return value
    rebate = path.number("rebate", lambda spec: spec.product.barrier.rebate)  # type: ignore[attr-defined]
    if pays_at_hit(product):
        return value + rebate * _at_hit(path, survival)
    return value + rebate * end * (1.0 - alive if rule.is_out else alive)


def _alive(survival: Tensor) -> Tensor:
    """The probability to live through all steps, [blocks, paths]."""
    return survival.squeeze(1) if survival.shape[1] == 1 else survival.prod(1)


def _survival(path: Path, monitoring: Any, lower: Tensor | None, upper: Tensor | None) -> Tensor:
    """The probability not to touch a level in each step, [blocks, dates, paths]; 0 or 1 at single dates."""
    if monitoring.times is not None:
        return _untouched(path, monitoring, lower, upper)
    x, before, total = path.logs[0], path.before(), path.variance[0]
    if lower is not None and upper is not None:
        return _between(before - lower.log(), x - lower.log(), (upper / lower).log(), total)
    if upper is not None:
        start, end = upper.log() - before, upper.log() - x
    else:
        assert lower is not None
        start, end = before - lower.log(), x - lower.log()
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


def _untouched(path: Path, monitoring: Any, lower: Tensor | None, upper: Tensor | None) -> Tensor:
    spots = path.at_times(monitoring.times, today=monitoring.include_t0)
    inside: Tensor | None = None
    for level, is_inside in ((lower, Tensor.__gt__), (upper, Tensor.__lt__)):
        if level is not None:
            own = is_inside(spots, level)
            inside = own if inside is None else inside & own
    assert inside is not None
    return inside.astype(spots.dtype)


def _at_hit(path: Path, survival: Tensor) -> Tensor:
    """Today's value of 1 at the first touch; between two dates that is taken to be in the middle."""
    alive = survival.cumprod(1)
    dates = alive.shape[1]
    ones = alive[:, 0:1] * 0.0 + 1.0
    before = ones if dates == 1 else cat([ones, alive[:, : dates - 1]], 1)

    def factors(spec: Spec) -> list[float]:
        return [spec.market.discount(time) for time in _hit_times(spec)]

    factor = path.numbers.column("hit discounts", factors)
    rate = path.shifts.get("rate")
    if rate is not None:
        factor = factor * (-(rate * path.numbers.column("hit times", _hit_times))).exp()
    later = path.shifts.get("time")
    if later is not None:
        now = path.numbers.scalar("rate now", lambda spec: spec.market.rate.values[0])
        factor = factor * (-(later * now)).exp()
    return ((before - alive) * factor).sum(1)


def _hit_times(spec: Spec) -> list[float]:
    """When a touch is paid that is seen at each date, or in each step."""
    monitoring = spec.product.monitoring  # type: ignore[attr-defined]
    if monitoring.times is not None:
        return [*((0.0,) if monitoring.include_t0 else ()), *monitoring.times]
    times = (0.0, *grid_of(spec).contract)
    return [0.5 * (start + end) for start, end in pairwise(times)]


def extreme(path: Path, of_maximum: bool) -> Tensor:
    """The largest or smallest value of the path, [blocks, paths], with what the contract has seen before.

    Between two dates it is drawn: the law of a bridge's maximum is (a + b + √((b - a)² - 2 v log U)) / 2.
    """
    product: Any = path.numbers.spec.product
    monitoring = product.monitoring
    if monitoring.times is None:
        x, before = path.logs[0], path.before()
        assert path.uniforms is not None
        spread = ((x - before) * (x - before) + path.variance[0] * path.uniforms.log() * -2.0).sqrt()
        spots = ((x + before + (spread if of_maximum else -spread)) * 0.5).exp()
    else:
        spots = path.at_times(monitoring.times)
    found = spots.max(1) if of_maximum else spots.min(1)
    pick = Tensor.maximum if of_maximum else Tensor.minimum
    if product.extreme is not None:
        found = pick(found, path.number("extreme", lambda spec: spec.product.extreme))  # type: ignore[attr-defined]
    if monitoring.include_t0:
        found = pick(found, path.today())
    return found
