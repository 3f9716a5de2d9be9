"""Eigenvalues and eigenvectors of symmetric matrices."""

from __future__ import annotations

Matrix = tuple[tuple[float, ...], ...]


def eigen(matrix: Matrix) -> tuple[list[float], list[list[float]]]:
    """Eigenvalues, and a matrix whose columns are the eigenvectors, by cyclic Jacobi rotations.

    G. Golub and C. Van Loan, Matrix Computations, section 8.5.
    """
    a = [list(row) for row in matrix]
    n = len(a)
    vectors = [[float(i == j) for j in range(n)] for i in range(n)]
    size = sum(x * x for row in a for x in row)
    for _ in range(60):
        off = sum(a[i][j] ** 2 for i in range(n) for j in range(i))
        if off <= 1e-32 * size:
            break
        for p in range(n):
            for q in range(p + 1, n):
                _rotate(a, vectors, p, q)
    return [a[i][i] for i in range(n)], vectors


def _rotate(a: list[list[float]], vectors: list[list[float]], p: int, q: int) -> None:
    """Makes ``a[p][q]`` 0."""
    if a[p][q] == 0.0:
        return
    tau = (a[q][q] - a[p][p]) / (2.0 * a[p][q])
    t = (1.0 if tau >= 0.0 else -1.0) / (abs(tau) + (1.0 + tau * tau) ** 0.5)
    c = (1.0 + t * t) ** -0.5
    s = t * c
    for rows in (a, vectors):
        for row in rows:
            row[p], row[q] = c * row[p] - s * row[q], s * row[p] + c * row[q]
    for k in range(len(a)):
        a[p][k], a[q][k] = c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]
