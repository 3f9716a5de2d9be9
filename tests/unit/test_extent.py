"""Arithmetic on dimensions: exact quotients, and how two shapes divide one index space."""

from __future__ import annotations

from itertools import pairwise
from itertools import product as pairs
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.compiler.extent import common_refinement, contiguous, product, quotient, solid, split
from engine.core.dim import Dim, evaluate, symbol

R, N = symbol("r"), symbol("n")


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        (12, 4, 3),
        (12, 5, None),
        (0, 5, 0),
        (5, 0, None),
        (R * 4, 4, R),
        (R * 4, R, 4),
        (R * 4, 8, None),
        (R * N * 6, R * 3, N * 2),
        (R * R, R, R),
        (R + 1, R + 1, 1),
        (R * 2 + 2, 2, R + 1),
        (R * 2 + 1, 2, None),
        (R, N, None),
        (R * (R + 1), R, R + 1),
        (R * (R + 1), R + 1, None),
    ],
)
def test_quotient(a: Dim, b: Dim, want: Dim | None) -> None:
    assert quotient(a, b) == want


@given(st.integers(0, 60), st.integers(1, 12), st.integers(0, 9), st.integers(0, 9))
def test_a_quotient_is_exact_at_every_size(factor: int, divisor: int, r: int, n: int) -> None:
    a = R * factor + N * R * factor
    whole = quotient(a, divisor)
    sizes = {"r": r, "n": n}
    if whole is not None:
        assert evaluate(whole, sizes) * divisor == evaluate(a, sizes)
    else:
        assert factor % divisor


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ((6, 4), (24,), (6, 4)),
        ((6, 4), (3, 8), (3, 2, 4)),
        ((6, 4), (4, 6), None),
        ((R * 4, 32), (R, 128), (R, 4, 32)),
        ((R, 6), (R * 2, 3), (R, 2, 3)),
        ((R, N), (R * N,), (R, N)),
        ((R, N), (N, R), None),
        ((), (), ()),
        ((R + 1, 4), (R + 1, 2, 2), (R + 1, 2, 2)),
    ],
)
def test_common_refinement(a: tuple[Dim, ...], b: tuple[Dim, ...], want: tuple[Dim, ...] | None) -> None:
    assert common_refinement(a, b) == want


@given(st.lists(st.integers(2, 6), min_size=1, max_size=5), st.data())
def test_a_refinement_gives_both_shapes_by_joining(dims: list[int], data: st.DataObject) -> None:
    def joined() -> tuple[int, ...]:
        cuts = [0, *(k for k in range(1, len(dims)) if data.draw(st.booleans())), len(dims)]
        return tuple(prod(dims[i:j]) for i, j in pairwise(cuts))

    a, b = joined(), joined()
    refined = common_refinement(a, b)
    assert refined is not None
    for shape in (a, b):
        parts = split(shape, refined)
        assert parts is not None
        assert tuple(product([refined[k] for k in part]) for part in parts) == shape


def test_split_refuses_what_does_not_follow() -> None:
    assert split((4, 6), (4, 2, 3)) == [range(1), range(1, 3)]
    assert split((4, 6), (2, 12)) is None
    assert split((4, 6), (4, 6, 2)) is None
    assert split((R,), (R, 2)) is None


def test_strides_are_row_major() -> None:
    shape = (3, 4, 5)
    strides = contiguous(shape)
    flat = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in pairs(*map(range, shape))]
    assert flat == list(range(60))
    assert contiguous((2, R, N)) == (R * N, N, 1)


def test_solid_drops_only_the_literal_one() -> None:
    assert solid((1, R, 1, 3, 0)) == (R, 3, 0)
