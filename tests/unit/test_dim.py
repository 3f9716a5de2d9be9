"""Dimensions: integer polynomials in canonical form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.dim import Poly, evaluate, is_static, size_of, symbol

R, C = symbol("R"), symbol("C")
SIZES = st.fixed_dictionaries({"R": st.integers(0, 9), "C": st.integers(0, 9)})
DIMS = st.recursive(
    st.integers(-3, 3) | st.sampled_from([R, C]),
    lambda inner: st.tuples(st.sampled_from("+-*"), inner, inner).map(
        lambda t: {"+": t[1] + t[2], "-": t[1] - t[2], "*": t[1] * t[2]}[t[0]]
    ),
    max_leaves=8,
)


def test_equal_polynomials_are_equal_objects_by_value() -> None:
    assert R * C + R == R * (C + 1) == (1 + C) * R
    assert hash(R + C) == hash(C + R)
    assert R != C
    assert R + 1 != R


def test_constants_are_ints() -> None:
    assert R - R == 0
    assert isinstance(R - R, int)
    assert (R + 3) - R == 3
    assert R * 0 == 0
    assert 5 - (R + 5) == -R


@given(DIMS, DIMS, SIZES)
def test_arithmetic_is_that_of_the_values(a, b, sizes) -> None:
    x, y = evaluate(a, sizes), evaluate(b, sizes)
    assert evaluate(a + b, sizes) == x + y
    assert evaluate(a - b, sizes) == x - y
    assert evaluate(a * b, sizes) == x * y


@given(DIMS, DIMS, DIMS)
def test_canonical_form_does_not_depend_on_the_order_of_operations(a, b, c) -> None:
    assert a * (b + c) == a * b + a * c
    assert (a + b) + c == a + (b + c)
    assert a - b == -1 * b + a


def test_a_symbol_without_a_size_is_named() -> None:
    with pytest.raises(KeyError, match="C"):
        evaluate(R * C, {"R": 2})


def test_symbols_are_identifiers() -> None:
    with pytest.raises(ValueError, match="'2x' is not an identifier"):
        symbol("2x")


def test_sizes_of_shapes() -> None:
    assert size_of(()) == 1
    assert size_of((2, R, C)) == R * C * 2
    assert size_of((0, R)) == 0
    assert is_static((2, 3))
    assert not is_static((2, R))


def test_text_shows_powers_and_factors() -> None:
    assert str(R * R * 2 + C + 1) == "2*R*R + C + 1"
    assert isinstance(R + 1, Poly)
