"""Dimensions: plain ints, or canonical integer polynomials over named symbols."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias

Monomial: TypeAlias = tuple[str, ...]  # sorted symbol names, repeated for powers; () is the constant term

Relation: TypeAlias = Literal["==", "<", "<=", ">", ">="]

on_doubt: ContextVar[Callable[[Relation, Poly, Dim], bool] | None] = ContextVar("on_doubt", default=None)
"""Asked how two sizes compare where their polynomials don't tell; without it, they are unequal and have no
order.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Poly:
    """A polynomial that holds at least one symbol; a constant one is an int instead.

    ``terms`` is sorted by monomial and has no zero coefficient, so equal polynomials are equal objects by
    value.
    """

    terms: tuple[tuple[Monomial, int], ...]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Poly) and self.terms == other.terms:
            return True
        doubt = on_doubt.get()
        return doubt is not None and isinstance(other, int | Poly) and doubt("==", self, other)

    def __lt__(self, other: Dim) -> bool:
        return self._compared("<", other)

    def __le__(self, other: Dim) -> bool:
        return self._compared("<=", other)

    def __gt__(self, other: Dim) -> bool:
        return self._compared(">", other)

    def __ge__(self, other: Dim) -> bool:
        return self._compared(">=", other)

    def _compared(self, relation: Relation, other: Dim) -> bool:
        doubt = on_doubt.get()
        if doubt is None or not isinstance(other, int | Poly):
            raise TypeError(f"whether the size {self} {relation} {other} is not known")
        return doubt(relation, self, other)

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        return hash(self.terms)

    def __add__(self, other: Dim) -> Dim:
        return _collect([*self.terms, *_terms(other)])

    __radd__ = __add__

    def __mul__(self, other: Dim) -> Dim:
        return _collect(
            (tuple(sorted(left + right)), a * b) for left, a in self.terms for right, b in _terms(other)
        )

    __rmul__ = __mul__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1

    def __rsub__(self, other: int) -> Dim:
        return other + self * -1

    def __floordiv__(self, other: Dim) -> Dim:
        """The exact quotient. Raises TypeError where one is not known to exist."""
        divisor = _terms(other)
        if len(divisor) != 1 or not divisor[0][1]:
            raise TypeError(f"{self} cannot be divided by {other}; divide by a product")
        monomial, factor = divisor[0]
        quotient = []
        for own, number in self.terms:
            rest = Counter(own) - Counter(monomial)
            if number % factor or rest.total() != len(own) - len(monomial):
                raise TypeError(f"{self} is not known to be a multiple of {other}")
            quotient.append((tuple(sorted(rest.elements())), number // factor))
        return _collect(quotient)

    def __mod__(self, other: Dim) -> int:
        """0 where the quotient is exact. Raises TypeError elsewhere."""
        self.__floordiv__(other)
        return 0

    def __str__(self) -> str:
        return " + ".join(_term_text(monomial, factor) for monomial, factor in reversed(self.terms))

    __repr__ = __str__


Dim: TypeAlias = int | Poly
Shape: TypeAlias = tuple[Dim, ...]


def symbol(name: str) -> Poly:
    """The dimension that stands for itself: ``symbol("rows")``."""
    if not name.isidentifier():
        raise ValueError(f"symbol name {name!r} is not an identifier")
    return Poly((((name,), 1),))


RELATIONS: dict[Relation, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(dim: Dim, sizes: Mapping[str, int]) -> int:
    """``dim`` with each symbol replaced by its size. Raises KeyError for a symbol without one."""
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, factor in dim.terms:
        product = factor
        for name in monomial:
            product *= sizes[name]
        total += product
    return total


def size_of(shape: Shape) -> Dim:
    """The number of elements of ``shape``; 1 for the empty shape."""
    total: Dim = 1
    for dim in shape:
        total = total * dim
    return total


def is_static(shape: Shape) -> bool:
    return all(isinstance(dim, int) for dim in shape)


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    return dim.terms if isinstance(dim, Poly) else (((), dim),)


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    totals: dict[Monomial, int] = {}
    for monomial, factor in terms:
        totals[monomial] = totals.get(monomial, 0) + factor
    kept = tuple(sorted((monomial, factor) for monomial, factor in totals.items() if factor))
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    return Poly(kept)


def _term_text(monomial: Monomial, factor: int) -> str:
    names = "*".join(monomial)
    if not names:
        return str(factor)
    return names if factor == 1 else f"{factor}*{names}"
