"""Elementary functions to sixty digits, in pure Python.

The source of truth for the polynomials of `kmath.h` and for the tests that measure its error. Series and
identities are those of Abramowitz & Stegun, Handbook of Mathematical Functions (the numbers in brackets).
Arguments are finite; every function returns a `Decimal` with a relative error below 1e-50.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import cache

DIGITS = 60
GUARD = 20


def context(digits: int = DIGITS + GUARD) -> Context:
    """A decimal context of that many digits, wide enough for every float64 and its exponential."""
    return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)


@cache
def pi(digits: int) -> Decimal:
    """Pi to that many digits, by Machin's formula: pi/4 = 4 atan(1/5) - atan(1/239) [4.4.42]."""
    scale: int = 10 ** (digits + 10)

    def atan_inverse(n: int) -> int:
        total, power, k = 0, scale // n, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power //= n * n
            k += 2
        return total

    with localcontext(context(digits + 10)):
        return Decimal(4 * (4 * atan_inverse(5) - atan_inverse(239))) / scale


def _sum(terms: Iterator[Decimal]) -> Decimal:
    """The sum of a series whose terms shrink, to the working precision."""
    total = Decimal(0)
    for term in terms:
        previous, total = total, total + term
        if total == previous:
            return total
    raise AssertionError("the series ended early")


def exp(x: Decimal) -> Decimal:
    with localcontext(context()):
        return x.exp()


def expm1(x: Decimal) -> Decimal:
    """exp(x) - 1 [4.2.1]; the digits that cancel are taken on beforehand."""
    with localcontext(context(DIGITS + GUARD + max(0, -x.adjusted()))):
        return x.exp() - 1


def log(x: Decimal) -> Decimal:
    with localcontext(context()):
        return x.ln()


def log1p(x: Decimal) -> Decimal:
    with localcontext(context(DIGITS + GUARD + max(0, -x.adjusted()))):
        return (1 + x).ln()


def tanh(x: Decimal) -> Decimal:
    """(e^2x - 1) / (e^2x + 1) [4.5.25, 4.5.64]."""
    with localcontext(context()):
        if abs(x) > 200:
            return Decimal(1).copy_sign(x)
        e = expm1(2 * x)
        return e / (e + 2)


def _sin_series(x: Decimal) -> Decimal:
    def terms() -> Iterator[Decimal]:
        term, k = x, 1
        while True:
            yield term
            term = -term * x * x / ((k + 1) * (k + 2))
            k += 2

    return _sum(terms())


def _quadrant(x: Decimal) -> tuple[int, Decimal]:
    """(n mod 4, x - n pi/2), with the residue at most pi/4 in magnitude."""
    digits = DIGITS + 2 * GUARD + max(0, x.adjusted())
    with localcontext(context(digits)):
        half_pi = pi(digits) / 2
        n = int((x / half_pi).to_integral_value())
        return n % 4, x - n * half_pi


def sin(x: Decimal) -> Decimal:
    """[4.3.65] after reduction by multiples of pi/2."""
    quadrant, r = _quadrant(x)
    with localcontext(context()):
        value = _cos_series(r) if quadrant % 2 else _sin_series(r)
        return -value if quadrant >= 2 else value


def cos(x: Decimal) -> Decimal:
    """[4.3.66] after reduction by multiples of pi/2."""
    quadrant, r = _quadrant(x)
    with localcontext(context()):
        value = _sin_series(r) if quadrant % 2 else _cos_series(r)
        return -value if quadrant in (1, 2) else value


def _cos_series(x: Decimal) -> Decimal:
    def terms() -> Iterator[Decimal]:
        term, k = Decimal(1), 0
        while True:
            yield term
            term = -term * x * x / ((k + 1) * (k + 2))
            k += 2

    return _sum(terms())


def atan(x: Decimal) -> Decimal:
    """[4.4.42], after three halvings: atan x = 2 atan(x / (1 + sqrt(1 + x^2)))."""
    with localcontext(context()):
        if x == 0:
            return x
        if abs(x) > 1:
            return (pi(DIGITS + GUARD) / 2).copy_sign(x) - atan(1 / x)
        for _ in range(3):
            x = x / (1 + (1 + x * x).sqrt())

        def terms() -> Iterator[Decimal]:
            power, k = x, 1
            while True:
                yield power / k
                power = -power * x * x
                k += 2

        return 8 * _sum(terms())


def erf(x: Decimal) -> Decimal:
    """2/sqrt(pi) e^(-x^2) sum of 2^n x^(2n+1) / (1 3 5 ... (2n+1)) [7.1.6]; one beyond 13."""
    with localcontext(context()):
        if abs(x) > 13:
            return Decimal(1).copy_sign(x)

        def terms() -> Iterator[Decimal]:
            term, k = x, 1
            while True:
                yield term
                k += 2
                term = term * 2 * x * x / k

        return 2 / pi(DIGITS + GUARD).sqrt() * (-x * x).exp() * _sum(terms())


def erfc(x: Decimal) -> Decimal:
    """1 - erf(x), good to forty digits up to x = 6."""
    with localcontext(context()):
        return 1 - erf(x)
