"""The triangular root of a correlation matrix, and its derivative."""

from __future__ import annotations

from math import sqrt

from engine.pricing.numerics.symmetric import Matrix

_SINGULAR = 1e-12  # a pivot below this is zero but for rounding


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
