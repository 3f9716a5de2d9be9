"""Indexing against NumPy, for reading, writing and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine import Tensor, grad_check
from engine.errors import DTypeError

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def arrays_and_indices(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], Any]:
    shape = draw(SHAPES)
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    index = draw(hnp.basic_indices(shape, max_dims=6, allow_newaxis=True))
    return array, index


@given(arrays_and_indices())
@settings(max_examples=200, deadline=None)
def test_basic_indices_read_like_numpy(case: tuple[np.ndarray[Any, Any], Any]) -> None:
    array, index = case
    expected = array[index]
    result = Tensor(array)[index]
    assert result.shape == expected.shape
    assert np.array_equal(np.asarray(result), expected)


@given(arrays_and_indices())
@settings(max_examples=100, deadline=None)
def test_basic_indices_write_like_numpy(case: tuple[np.ndarray[Any, Any], Any]) -> None:
    array, index = case
    tensor, expected = Tensor(array), array.copy()
    expected[index] = -1.0
    tensor[index] = -1.0
    assert np.array_equal(np.asarray(tensor), expected)


@pytest.mark.parametrize(
    "index",
    [
        np.s_[[0, 2]],
        np.s_[:, [1, 1, 0]],
        np.s_[0, :, [1, 2]],
        np.s_[[0, 1], [1, 2]],
        np.s_[:, [[0, 1], [2, 0]], 1],
        np.s_[[0, 1], :, [1, 2]],
        np.s_[[0, 1], None, [1, 2]],
        np.s_[..., [-1, 0]],
        np.s_[[-1], ::2, [[0], [3]]],
        np.s_[[]],
    ],
)
def test_integer_tensors_read_and_write_like_numpy(index: Any) -> None:
    array = np.arange(60, dtype=np.float32).reshape(3, 5, 4)
    ours = tuple(
        Tensor(i) if isinstance(i, list) and i else i
        for i in (index if isinstance(index, tuple) else (index,))
    )
    expected = array[index] if index != [] else array[np.array([], int)]
    assert np.array_equal(np.asarray(Tensor(array)[ours]), expected)
    tensor, written = Tensor(array), array.copy()
    tensor[ours] = 5.0
    written[index if index != [] else np.array([], int)] = 5.0
    assert np.array_equal(np.asarray(tensor), written)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (5, r"index 5 is out of range for axis 0 of \(3, 4\), which has size 3"),
        ((0, -5), "index -5 is out of range for axis 1"),
        ((0, 0, 0), "3 indices for a tensor of shape"),
        ((..., ...), "only one Ellipsis"),
        ("x", "not an index"),
        (1.0, "not an index"),
        (True, "bool is not an index"),
        (np.array([0, 1]), "not an index"),
        ([3], "index 3 .* out of range for axis 0 of size 3"),
        ([0, -4], "out of range for axis 0 of size 3"),
    ],
)
def test_bad_indices_are_index_errors(index: Any, message: str) -> None:
    with pytest.raises(IndexError, match=message):
        Tensor.zeros(3, 4)[index]


@pytest.mark.parametrize("mask", [Tensor([True, False, True]), [True, False, True], Tensor([[True] * 4] * 3)])
def test_a_mask_is_no_index_and_the_error_says_what_to_use(mask: Any) -> None:
    x = Tensor.zeros(3, 4)
    with pytest.raises(DTypeError, match=r"use where\(mask, x, other\) or x.masked_fill\(mask, value\)"):
        x[mask]
    with pytest.raises(DTypeError, match=r"use where\(mask, x, other\) or x.masked_fill\(mask, value\)"):
        x[mask] = 1.0


@pytest.mark.parametrize(
    "index", [np.s_[1], np.s_[::-2, 1:], np.s_[[0, 2, 0]], np.s_[:, [[1], [1]]], np.s_[None, -1]]
)
def test_gradients_of_reading_and_writing(index: Any) -> None:
    x = Tensor(np.random.default_rng(0).standard_normal((3, 4)))
    assert grad_check(lambda t: t[index] * t[index], [x], order=2)

    def written(t: Tensor, v: Tensor) -> Tensor:
        y = t * 1.0
        y[index] = (v * v).sum()
        return y * y

    assert grad_check(written, [x, Tensor([0.5, 2.0])])
