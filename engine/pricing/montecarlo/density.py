"""What holds paths where they are while the market moves, and what that does to how probable they are.

The derivative of a payoff that jumps, and a second derivative of one that bends, is missed where a path moves
across the jump or the bend. So paths stay where they are at the dates that the contract sees: other factors
lead there in the moved market, and a path weighs its density there over what it was (Broadie and Glasserman
1996).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from engine.pricing.montecarlo.correlate import correlated, independent, log_volume
from engine.pricing.montecarlo.factors import Factors
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import start, summed
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import Heston, Spec
from engine.pricing.spec.products import Asian
from engine.tensor import Tensor, cat

Law = tuple[Tensor, Tensor]
"""Mean and variance of each step's log return of an asset."""


def of_returns(
    numbers: Numbers, shifts: Shifts, factors: Factors, here: Sequence[Law], there: Sequence[Law]
) -> tuple[Factors, Tensor]:
    """Of assets whose log returns are normal, by the laws of the market as it is and of the shifted one.

    The factors that lead there, and the density over what it was: a factor of value 1, [blocks, paths].
    """
    grid, assets = grid_of(numbers.spec), len(here)
    if assets == 1 and (isinstance(numbers.spec.model, Heston) or len(grid.seen) < len(grid.times)):
        return _of_what_is_seen(numbers, shifts, factors, here[0], there[0])
    driving = correlated(numbers, Shifts(), factors.normals[:assets])
    mixed, volume = [], log_volume(numbers, shifts, assets)
    for asset, ((mean, variance), (moved, wide)) in enumerate(zip(here, there, strict=True)):
        x = summed(driving[asset] * variance.sqrt() + mean).detach()
        begin, first = (start(numbers, own, asset) for own in (Shifts(), shifts))
        x = x + begin
        if ratio_of_fixings(numbers.spec):
            late, volume = _late(numbers, x[:, :1], begin, first)
            x = cat([x[:, :1] + late, *_after_first(x)], 1)
        first = first.broadcast_to(x.shape[0], 1, x.shape[2])
        before = first if x.shape[1] == 1 else cat([first, x[:, : x.shape[1] - 1]], 1)
        mixed.append((x - before - moved) / wide.sqrt())
    normals = independent(numbers, shifts, mixed)
    log = _log_density(normals, [variance for _, variance in there])
    if volume is not None:
        log = log + volume.squeeze(1)
    return replace(factors, normals=[*normals, *factors.normals[assets:]]), (log - log.detach()).exp()


def _of_what_is_seen(
    numbers: Numbers, shifts: Shifts, factors: Factors, here: Law, there: Law
) -> tuple[Factors, Tensor]:
    """The same of one asset that the contract sees at some dates only.

    Steps between two of them are one, which weighs far less than they do, above all where the variance of
    some is next to nothing.
    """
    seen = grid_of(numbers.spec).seen
    (mean, variance), (moved, wide) = here, there
    moved, wide = (x.broadcast_to(*factors.normals[0].shape) for x in (moved, wide))
    begin, first = (start(numbers, own, 0) for own in (Shifts(), shifts))
    steps = (factors.normals[0] * variance.sqrt() + mean).detach()
    made, volume = _between(steps, seen), None
    lateness = [first - begin]
    if ratio_of_fixings(numbers.spec):
        late, volume = _late(numbers, made[:, :1] + begin, begin, first)
        lateness = [first - begin - late, late] if len(seen) > 1 else [first - begin - late]
    made = made - _between(moved, seen)
    made = cat([made[:, :1] - lateness[0], *_after_first(made)], 1)
    if len(lateness) > 1:
        made = cat([made[:, :1], made[:, 1:2] - lateness[1], *_after_first(made[:, 1:])], 1)
    total = _between(wide, seen)
    z = made / total.sqrt()
    log = _log_density([z], [total])
    if volume is not None:
        log = log + volume.squeeze(1)
    each = wide.sqrt() * _at_each(z / total.sqrt(), seen)
    return replace(factors, normals=[each, *factors.normals[1:]]), (log - log.detach()).exp()


def ratio_of_fixings(spec: Spec) -> float:
    """What today's fixing weighs over that of the first date; 0 where today is none of an average."""
    product = spec.product
    if not isinstance(product, Asian):
        return 0.0
    times = grid_of(spec).contract
    if product.averaging.times is not None:
        return float(0.0 in product.averaging.times and times[0] in product.averaging.times)
    return times[0] / times[1] if len(times) > 1 else 1.0  # trapezoids


def _late(numbers: Numbers, x: Tensor, begin: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """By how much the first date's logarithm must move for its part of an average, with today's, to stay; and
    the logarithm of what that does to volumes, [blocks, 1, paths].
    """
    ratio = numbers.scalar("today's fixing", ratio_of_fixings)
    averaging: Any = numbers.spec.product.averaging  # type: ignore[attr-defined]
    if averaging.kind == "geometric":
        late = (begin - first) * ratio + x * 0.0
        return late, x * 0.0
    late = (1.0 - (first.exp() - begin.exp()) * ratio / x.exp()).log()
    return late, -late


def _after_first(x: Tensor) -> list[Tensor]:
    return [x[:, 1:]] if x.shape[1] > 1 else []


def _log_density(normals: Sequence[Tensor], variances: Sequence[Tensor]) -> Tensor:
    """The logarithm of the density of steps, [blocks, paths], but for a constant."""
    parts = [z * z + variance.log() for z, variance in zip(normals, variances, strict=True)]
    return reduce(Tensor.__add__, parts).sum(1) * -0.5


def _between(x: Tensor, seen: Sequence[int]) -> Tensor:
    """Sums of the steps up to each seen date from the one before it, to their last digits however small."""
    parts = [
        x[:, begin + 1 : end + 1].sum(1, True) for begin, end in zip([-1, *seen[:-1]], seen, strict=True)
    ]
    return parts[0] if len(parts) == 1 else cat(parts, 1)


def _at_each(x: Tensor, seen: Sequence[int]) -> Tensor:
    """Numbers of the steps between seen dates, for each date in them."""
    blocks, _, paths = x.shape
    starts = [-1, *seen[:-1]]
    counts = [end - begin for begin, end in zip(starts, seen, strict=True)]
    parts = [x[:, k : k + 1].broadcast_to(blocks, count, paths) for k, count in enumerate(counts)]
    return parts[0] if len(parts) == 1 else cat(parts, 1)
