"""Arithmetic on dimensions that may hold symbols: quotients, and how two shapes divide one index space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from engine.core.dim import Dim, Poly, Shape


def product(dims: Iterable[Dim]) -> Dim:
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


def contiguous(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Row-major strides in elements."""
    strides: list[Dim] = []
    step: Dim = 1
    for dim in reversed(shape):
        strides.append(step)
        step = step * dim
    return tuple(reversed(strides))


def solid(shape: Shape) -> tuple[Dim, ...]:
    """The dimensions of ``shape`` that are not the literal 1."""
    return tuple([dim for dim in shape if dim != 1])


def quotient(a: Dim, b: Dim) -> Dim | None:
    """``a / b`` where that is a polynomial and ``b`` is one term; else None."""
    if a == b:
        return 1
    if b == 0:
        return None
    divisor = b.terms if isinstance(b, Poly) else (((), b),)
    if len(divisor) != 1:
        return None
    names, factor = divisor[0]
    result: Dim = 0
    for monomial, own in a.terms if isinstance(a, Poly) else (((), a),):
        left = Counter(monomial)
        left.subtract(names)
        if own % factor or any(count < 0 for count in left.values()):
            return None
        term: Dim = own // factor
        for name in left.elements():
            term = term * Poly((((name,), 1),))
        result = result + term
    return result


def common_refinement(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The coarsest dimensions from which both ``a`` and ``b`` follow by joining neighbours, or None.

    Both are without literal ones and have the same product. A dimension is cut only where the quotient is
    certain for every size: (r*4, 32) and (r, 128) refine to (r, 4, 32).
    """
    left, right = list(reversed(a)), list(reversed(b))
    refined: list[Dim] = []
    while left and right:
        x, y = left.pop(), right.pop()
        if x == y:
            refined.append(x)
            continue
        rest = quotient(x, y)
        if rest is not None:
            refined.append(y)
            left.append(rest)
            continue
        rest = quotient(y, x)
        if rest is None:
            return None
        refined.append(x)
        right.append(rest)
    return None if left or right else tuple(refined)


def split(dims: Sequence[Dim], refined: Sequence[Dim]) -> list[range] | None:
    """For each of ``dims`` the neighbours of ``refined`` that it joins; None where it does not follow."""
    parts: list[range] = []
    position = 0
    for dim in dims:
        start, total = position, refined[position] if position < len(refined) else None
        while total is not None and total != dim:
            position += 1
            if position >= len(refined):
                return None
            total = total * refined[position]
        if total is None:
            return None
        position += 1
        parts.append(range(start, position))
    return parts if position == len(refined) else None
