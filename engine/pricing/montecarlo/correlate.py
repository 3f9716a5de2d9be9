"""Correlated normals from independent ones and back, for correlations that are positive semi-definite."""

from __future__ import annotations

from collections.abc import Sequence

from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.shifts import Shifts, pairs_of
from engine.pricing.numerics.cholesky import root, root_slope
from engine.tensor import Tensor


def correlated(numbers: Numbers, shifts: Shifts, factors: Sequence[Tensor]) -> list[Tensor]:
    """Independent factors turned into correlated ones: L z, L Lᵀ the correlation matrix."""
    n = len(factors)
    if n == 1:
        return list(factors)
    mixed = []
    for i in range(n):
        total = factors[0] * _entry(numbers, shifts, n, i, 0)
        for k in range(1, i + 1):
            total = total + factors[k] * _entry(numbers, shifts, n, i, k)
        mixed.append(total)
    return mixed


def independent(numbers: Numbers, shifts: Shifts, mixed: Sequence[Tensor]) -> list[Tensor]:
    """The factors that correlated normals are made of, L⁻¹ w: for matrices that are not singular."""
    n = len(mixed)
    if n == 1:
        return list(mixed)
    factors: list[Tensor] = []
    for i, w in enumerate(mixed):
        left = w
        for k, z in enumerate(factors):
            left = left - z * _entry(numbers, shifts, n, i, k)
        factors.append(left / _entry(numbers, shifts, n, i, i))
    return factors


def log_volume(numbers: Numbers, shifts: Shifts, n: int) -> Tensor | None:
    """log det L⁻¹ of all dates, [blocks, 1, paths], where shifts move it."""
    if not any(kind == "corr" for kind, _ in shifts.lanes):
        return None
    total: Tensor | None = None
    for i in range(n):
        own = _entry(numbers, shifts, n, i, i).log()
        total = own if total is None else total + own
    return None if total is None else total * -float(len(grid_of(numbers.spec).times))


def _entry(numbers: Numbers, shifts: Shifts, n: int, i: int, k: int) -> Tensor:
    """An entry of L, with what shifts of correlations add to first order."""
    value = numbers.scalar(f"root {i} {k}", lambda spec: root(spec.market.correlation)[i][k])
    for place, pair in enumerate(pairs_of(n)):
        shift = shifts.get("corr", place)
        if shift is not None:
            slope = numbers.scalar(
                f"root slope {place} {i} {k}",
                lambda spec, pair=pair: root_slope(spec.market.correlation, *pair)[i][k],  # type: ignore[misc]
            )
            value = value + shift * slope
    return value
