"""Rounding to float32 and the fused multiply-add, exactly.

Python computes in float64. One sum, difference, product, quotient or square root of float32 operands that is
rounded to float64 and then to float32 is the correctly rounded result; a fused multiply-add is not, and has
to look at what the first rounding lost.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from fractions import Fraction
from math import copysign, inf, isfinite, isinf, nextafter
from operator import add, eq

from engine.core.dtype import DType, float64

LARGEST_F32 = (2 - 2**-23) * 2.0**127
OVERFLOW_F32 = (2 - 2**-24) * 2.0**127  # halfway between LARGEST_F32 and the next power of two
SPLITTER = 2.0**27 + 1
SAFE_LOW, SAFE_HIGH = 2.0**-400, 2.0**400  # products of such factors and their parts are exact


def round_f32(values: Iterable[float]) -> list[float]:
    return array("f", values).tolist()


def round_f64(values: Iterable[float]) -> list[float]:
    return list(values)


def rounder(dtype: DType) -> Callable[[Iterable[float]], list[float]]:
    """Rounds numbers to the dtype in which ``dtype`` is computed: bfloat16 works in float32."""
    if not dtype.is_float or dtype is float64:
        return round_f64
    return round_f32


def fma_f32(a: float, b: list[float], c: list[float]) -> list[float]:
    """a·b + c for each element of ``b`` and ``c``, rounded once to float32."""
    products = [a * y for y in b]  # exact: 48 bits
    sums = list(map(add, products, c))
    rounded = round_f32(sums)
    # a sum lies halfway between two float32 where twice it less the nearest one is a float32 too
    mirrored = [total + total - near for total, near in zip(sums, rounded, strict=True)]
    if any(map(eq, mirrored, round_f32(mirrored))) or inf in rounded or -inf in rounded:
        for i, (total, near, other) in enumerate(zip(sums, rounded, mirrored, strict=True)):
            if _is_halfway(total, near, other):
                rounded[i] = _settle(products[i], c[i], total, near, other)
    return rounded


def _is_halfway(total: float, near: float, other: float) -> bool:
    if isinf(near):
        return abs(total) == OVERFLOW_F32
    return near != total and round_f32([other])[0] == other


def fma_f64(a: float, b: list[float], c: list[float]) -> list[float]:
    return [fma(a, y, z) for y, z in zip(b, c, strict=True)]


def fma_int(a: int, b: list[int], c: list[int]) -> list[int]:
    return [a * y + z for y, z in zip(b, c, strict=True)]


def _settle(product: float, addend: float, total: float, even: float, other: float) -> float:
    """The float32 nearest to product + addend, whose float64 sum lies halfway between ``even`` and
    ``other``.
    """
    lost = _sum_error(product, addend, total)
    if not isfinite(even):
        return even if lost * total >= 0 else copysign(LARGEST_F32, total)
    if lost > 0:
        return max(even, other)
    return min(even, other) if lost < 0 else even


def fma(a: float, b: float, c: float) -> float:
    """a·b + c, rounded once. Boldo and Melquiond, Emulation of a FMA and correctly rounded sums (2008)."""
    product = a * b
    if not (SAFE_LOW < abs(a) < SAFE_HIGH and SAFE_LOW < abs(b) < SAFE_HIGH and abs(c) < SAFE_HIGH**2):
        return _fma_by_fractions(a, b, c, product)
    low = _product_error(a, b, product)
    upper = c + low
    upper_lost = _sum_error(c, low, upper)
    top = product + upper
    top_lost = _sum_error(product, upper, top)
    return top + _sum_to_odd(top_lost, upper_lost)


def _fma_by_fractions(a: float, b: float, c: float, product: float) -> float:
    if not (isfinite(a) and isfinite(b) and isfinite(c)) or a == 0 or b == 0:
        return product + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    sign = -1.0 if exact < 0 else 1.0
    try:
        return copysign(float(exact), sign)
    except OverflowError:
        return copysign(inf, sign)


def _product_error(a: float, b: float, product: float) -> float:
    """a·b - product, exactly (Dekker)."""
    scaled_a, scaled_b = SPLITTER * a, SPLITTER * b
    high_a, high_b = scaled_a - (scaled_a - a), scaled_b - (scaled_b - b)
    low_a, low_b = a - high_a, b - high_b
    return ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b


def _sum_error(a: float, b: float, total: float) -> float:
    """a + b - total, exactly (Knuth)."""
    part = total - a
    return (a - (total - part)) + (b - part)


def _sum_to_odd(a: float, b: float) -> float:
    """a + b, and where that is not exact the neighbour with an odd last bit: a later rounding then errs
    once.
    """
    total = a + b
    lost = _sum_error(a, b, total)
    if lost and not _is_odd(total):
        return nextafter(total, copysign(inf, lost))
    return total


def _is_odd(value: float) -> bool:
    return bool(array("d", (value,)).tobytes()[0] & 1)


def int_to_f32(value: int) -> float:
    """A float64 that rounds to the float32 nearest to ``value``, also where float64 cannot hold it."""
    excess = value.bit_length() - 53
    if excess <= 0:
        return float(value)
    kept = abs(value) >> excess
    sticky = kept | (abs(value) != kept << excess)
    return copysign(float(sticky << excess), value)
