"""Dot, reduce, scan and scatter of the reference device, bit for bit, against their definitions in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from primitives import given, value

from engine.core import build as b
from engine.core.dtype import bfloat16, float32, float64

LENGTHS = [0, 1, 2, 31, 63, 64, 65, 100, 129, 4095, 4096, 4097, 4160, 3 * 4096, 5 * 4096 + 70]


def wild(count: int, dtype: str, seed: int = 0):
    """Numbers of very different sizes, so that every change of order changes bits."""
    random = np.random.default_rng(seed)
    return (random.standard_normal(count) * 10.0 ** random.integers(-4, 5, count)).astype(dtype)


def tree_sum(x):
    """Blocks of 4096, lanes k mod 64, halving; blocks as a binary counter: a recursion over powers of two."""

    def block(part):
        lanes = [part[lane::64] for lane in range(min(64, len(part)))]
        totals = [None] * 64
        for lane, column in enumerate(lanes):
            total = column[0]
            for element in column[1:]:
                total = total + element
            totals[lane] = total
        for half in (32, 16, 8, 4, 2, 1):
            for lane in range(half):
                if totals[lane + half] is not None:
                    totals[lane] = totals[lane] + totals[lane + half]
        return totals[0]

    def combine(totals):
        """Aligned halves first, then what is beyond the largest power of two."""
        if len(totals) == 1:
            return totals[0]
        largest = 1 << ((len(totals) - 1).bit_length() - 1)
        return combine(totals[:largest]) + combine(totals[largest:])

    if not len(x):
        return x.dtype.type(0)
    return combine([block(x[start : start + 4096]) for start in range(0, len(x), 4096)])


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_sums_follow_the_tree(length, dtype) -> None:
    x = wild(length, dtype.name)
    assert value(b.reduce(given(x), "sum", (0,))).tobytes() == np.asarray(tree_sum(x)).tobytes()


def test_the_tree_of_several_axes_is_that_of_them_flattened_last() -> None:
    x = wild(5 * 7 * 20, "float32").reshape(5, 7, 20)
    result = value(b.reduce(given(x), "sum", (0, 2)))
    wanted = [tree_sum(x[:, column].ravel()) for column in range(7)]
    assert result.tobytes() == np.array(wanted).tobytes()


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 5, 1024, 1025, 2500])
def test_scans_are_chains_in_blocks_of_1024(length, reverse, dtype) -> None:
    x = wild(length, dtype.name)
    ordered = x[::-1] if reverse else x
    wanted = np.empty_like(x)
    for start in range(0, length, 1024):
        total = None
        for i in range(start, min(start + 1024, length)):
            total = ordered[i] if total is None else total + ordered[i]
            wanted[i] = total if start == 0 else wanted[start - 1] + total
    result = value(b.scan(given(x), "sum", 0, reverse))
    assert result.tobytes() == (wanted[::-1] if reverse else wanted).tobytes()


@pytest.mark.parametrize("k", [0, 1, 383, 384, 385, 800])
def test_products_are_chains_in_panels_of_384(k) -> None:
    # float32 products are exact in float64 and these sums are too, so a plain float64 step is a fused one
    random = np.random.default_rng(1)
    a = random.integers(-(2**11), 2**11, (2, k)).astype(np.float32) / 2**9
    c = random.integers(-(2**11), 2**11, (k, 3)).astype(np.float32) / 2**5
    wanted = np.zeros((2, 3), np.float32)
    for start in range(0, k, 384):
        chain = np.zeros((2, 3), np.float32)
        for j in range(start, min(start + 384, k)):
            exact = a[:, j : j + 1].astype(np.float64) * c[j].astype(np.float64) + chain
            chain = exact.astype(np.float32)
        wanted = wanted + chain
    assert value(b.dot(given(a), given(c))).tobytes() == wanted.tobytes()


def test_bfloat16_sums_are_rounded_once() -> None:
    x = given(np.array([256.0, 1, 1]), bfloat16)
    assert value(b.reduce(x, "sum", (0,))).tolist() == 258
    assert value(b.dot(b.reshape(x, (1, 3)), given(np.ones((3, 1)), bfloat16))).tolist() == [[258]]
    assert value(b.scan(x, "sum", 0)).tolist() == [256, 256, 258]
    one = given(np.array([1.0]), bfloat16)
    first = b.slice(x, (0,), (1,), (1,))
    assert value(b.add(b.add(first, one), one)).tolist() == [256]  # but each node rounds


def test_scatter_adds_in_row_major_order() -> None:
    x = np.array([1e8, 0.0], np.float32)
    values = np.array([[1.0, -1e8], [3.0, 1.0]], np.float32)
    index = given(np.zeros((2, 2), np.int64))
    total = x[0]
    for update in values.ravel():
        total = total + update
    assert value(b.scatter(given(x), (index,), given(values), "add", "checked")).tolist() == [total, 0]
    reverse = value(b.scatter(given(x), (index,), given(values[::-1].copy()), "add", "checked"))
    assert reverse.tolist() != [total, 0]


def test_maxima_propagate_nan_and_order_zeros() -> None:
    nan = float("nan")
    assert np.isnan(value(b.reduce(given(np.array([1.0, nan, 2.0])), "max", (0,))))
    assert np.isnan(value(b.scan(given(np.array([1.0, nan, 2.0])), "max", 0))[1:]).all()
    zeros = given(np.array([-0.0, 0.0, -0.0]))
    assert not np.signbit(value(b.reduce(zeros, "max", (0,))))
    assert np.signbit(value(b.reduce(zeros, "min", (0,))))


def test_empty_reductions() -> None:
    empty = given(np.zeros((3, 0)))
    assert value(b.reduce(empty, "sum", (1,))).tolist() == [0, 0, 0]
    assert value(b.reduce(empty, "prod", (1,))).tolist() == [1, 1, 1]
    flags = given(np.zeros((0,), bool))
    assert value(b.reduce(flags, "all", (0,))).tolist() is True
    assert value(b.reduce(flags, "any", (0,))).tolist() is False
    assert value(b.dot(given(np.zeros((2, 0))), given(np.zeros((0, 3))))).tolist() == [[0.0] * 3] * 2
