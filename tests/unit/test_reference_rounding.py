"""The fused multiply-add and the rounding of the reference device, against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import copysign, inf, isnan, nan

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.devices.reference.rounding import LARGEST_F32, fma, fma_f32, fma_f64, int_to_f32, round_f32

singles = st.floats(width=32, allow_nan=False, allow_infinity=False)
doubles = st.floats(allow_nan=False, allow_infinity=False)
near_one = st.integers(-(2**23), 2**23).map(lambda i: (2**24 + i) / 2**24)


def nearest_f32(exact: Fraction) -> float:
    """The nearest float32, ties to even, found by comparing distances to the two around ``exact``."""
    with np.errstate(over="ignore"):
        guess = np.float32(max(min(float(exact), LARGEST_F32), -LARGEST_F32))
        around = [np.nextafter(guess, np.float32(-inf)), guess, np.nextafter(guess, np.float32(inf))]
    if abs(exact) >= Fraction(LARGEST_F32) + Fraction(2) ** 103:  # halfway to the next power of two
        return inf if exact > 0 else -inf
    around = [x for x in around if np.isfinite(x)]
    best = min(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))
    return float(best)


@given(singles | near_one, singles | near_one, singles | near_one)
@example(1 + 2**-12, 1 + 2**-12, 2.0**-49)  # halfway in float64, and a lost part beyond
@example(1 + 2**-12, 1 + 2**-12, -(2.0**-49))
@example(2.0**127, 1.0, 2.0**127 - 2.0**103 - 1e-20)
@example(LARGEST_F32, 1.0, 2.0**103)
@example(1 + 2**-23, 2.0**104, LARGEST_F32)
@example(2.0**-75, 2.0**-75, 0.0)
@settings(max_examples=300)
def test_a_float32_fma_rounds_once(a, b, c) -> None:
    a, b, c = round_f32([a, b, c])
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    wanted = nearest_f32(exact)
    assert fma_f32(a, [b, 1.0, b], [c, 0.0, c]) == [wanted, a, wanted]


@given(doubles | near_one, doubles | near_one, doubles | near_one)
@example(1 + 2**-30, 1 + 2**-30, 2.0**-90)
@example(1 + 2**-30, 1 - 2**-30, -1.0)
@example(5e-324, 0.5, 5e-324)
@example(1e200, 1e200, -1e300)
@example(2.0**600, 2.0**-600, 2.0**-60)
@settings(max_examples=300)
def test_a_float64_fma_rounds_once(a, b, c) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        wanted = float(exact)
    except OverflowError:
        wanted = inf if exact > 0 else -inf
    assert fma(a, b, c) == wanted


@pytest.mark.parametrize(
    ("a", "b", "c", "wanted"),
    [
        (0.0, -1.0, 0.0, 0.0),
        (0.0, -1.0, -0.0, -0.0),
        (1.0, -1.0, 1.0, 0.0),
        (-5e-324, 0.5, 0.0, -0.0),
        (inf, 0.0, 1.0, nan),
        (inf, 1.0, -inf, nan),
        (inf, -1.0, 3.0, -inf),
    ],
)
def test_zeros_and_infinities_of_fma(a, b, c, wanted) -> None:
    result = fma(a, b, c)
    assert isnan(result) if isnan(wanted) else (result, copysign(1, result)) == (wanted, copysign(1, wanted))


def test_special_values_of_vector_steps() -> None:
    for step in (fma_f32, fma_f64):
        assert step(2.0, [], []) == []
        zeros = step(-0.0, [1.0, 1.0], [0.0, -0.0])
        assert [copysign(1, x) for x in zeros] == [1, -1]
        assert isnan(step(inf, [0.0], [1.0])[0])
        assert step(inf, [1.0, -1.0], [1.0, 1.0]) == [inf, -inf]
        assert isnan(step(1.0, [inf], [-inf])[0])


@given(st.integers(-(2**63), 2**63 - 1))
@example(2**24 + 1)
@example(2**54 + 2**30 + 1)
def test_integers_round_once_to_float32(value) -> None:
    assert round_f32([int_to_f32(value)])[0] == nearest_f32(Fraction(value))
