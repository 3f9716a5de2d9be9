"""Correlated normals from independent ones and back, for correlations that are positive semi-definite."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.shifts import Shifts, pairs_of
from engine.pricing.numerics.symmetric import Matrix
from engine.tensor import Tensor

_SINGULAR = 1e-12  # a pivot below this is zero but for rounding


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


def is_singular(matrix: Matrix) -> bool:
    """Whether some asset's normal is made of those of the assets before it."""
    return any(row[i] == 0.0 for i, row in enumerate(root(matrix)))


def root(matrix: Matrix) -> list[list[float]]:
    """A lower triangular L with L Lᵀ = matrix: Cholesky, in which a column without a pivot is zero.

    In a semi-definite matrix what remains of such a column is zero as well, so nothing is lost; a factor that
    nobody reads takes the place of the eigenvalue 0.
    """
    n = len(matrix)
    lower = [[0.0] * n for _ in range(n)]
    for j in range(n):
        pivot = matrix[j][j] - sum(lower[j][k] ** 2 for k in range(j))
        if pivot < _SINGULAR:
            continue
        lower[j][j] = sqrt(pivot)
        for i in range(j + 1, n):
            rest = matrix[i][j] - sum(lower[i][k] * lower[j][k] for k in range(j))
            lower[i][j] = rest / lower[j][j]
    return lower


def root_slope(matrix: Matrix, first: int, second: int) -> list[list[float]]:
    """The derivative of ``root`` with respect to the correlation of two assets.

    dL = L Φ(L⁻¹ dC L⁻ᵀ), Φ the lower triangle with its diagonal halved (Smith 1995). Singular matrices have
    none: NaN.
    """
    n = len(matrix)
    lower = root(matrix)
    if any(lower[i][i] == 0.0 for i in range(n)):
        return [[float("nan")] * n for _ in range(n)]
    change = [[float({i, j} == {first, second}) for j in range(n)] for i in range(n)]
    half = _solve(lower, change)
    whole = _solve(lower, [[half[j][i] for j in range(n)] for i in range(n)])
    kept = [[whole[i][j] * (0.5 if i == j else 1.0) if j <= i else 0.0 for j in range(n)] for i in range(n)]
    return [[sum(lower[i][k] * kept[k][j] for k in range(n)) for j in range(n)] for i in range(n)]


def _solve(lower: list[list[float]], right: list[list[float]]) -> list[list[float]]:
    """L⁻¹ times a matrix, by forward substitution."""
    n = len(lower)
    result = [[0.0] * n for _ in range(n)]
    for j in range(n):
        for i in range(n):
            known = sum(lower[i][k] * result[k][j] for k in range(i))
            result[i][j] = (right[i][j] - known) / lower[i][i]
    return result
