"""Element types: promotion, rounding of single numbers, identity."""

from __future__ import annotations

import copy
import pickle
import struct
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.dtype import (
    ALL,
    BY_NAME,
    bfloat16,
    bool_,
    by_name,
    float32,
    float64,
    int32,
    int64,
    promote,
    uint32,
)


@pytest.mark.parametrize("a", ALL, ids=str)
@pytest.mark.parametrize("b", ALL, ids=str)
def test_promotion_is_symmetric_and_keeps_equal_types(a, b) -> None:
    assert promote(a, b) is promote(b, a)
    assert promote(a, a) is a


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        (float32, float64, float64),
        (float32, bfloat16, float32),
        (float32, int64, float32),
        (bfloat16, uint32, bfloat16),
        (int32, uint32, int64),
        (int32, int64, int64),
        (bool_, uint32, uint32),
        (bool_, bfloat16, bfloat16),
    ],
)
def test_promotion(a, b, result) -> None:
    assert promote(a, b) is result


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_there_is_one_object_a_type(dtype) -> None:
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy([dtype])[0] is dtype
    assert by_name(dtype.name) is dtype is BY_NAME[str(dtype)]


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown dtype 'float16'; the dtypes are float32, float64"):
        by_name("float16")


@pytest.mark.parametrize(
    ("given", "rounded"),
    [
        (1.00390625, 1.0),
        (1.01171875, 1.015625),
        (3.3895e38, 3.3895313892515355e38),
        (3.4e38, inf),
        (-1e-45, -0.0),
        (-inf, -inf),
    ],
)
def test_bfloat16_rounds_to_nearest_even(given, rounded) -> None:
    result = bfloat16.decode(bfloat16.encode(given))
    assert struct.pack("d", result) == struct.pack("d", rounded)


@given(st.floats())
def test_floats_round_as_numpy_rounds_them(value) -> None:
    with np.errstate(over="ignore"):
        wanted = np.float64(value).astype(np.float32)
    assert np.float32(float32.decode(float32.encode(value))).tobytes() == wanted.tobytes() or isnan(value)
    assert struct.pack("d", float64.decode(float64.encode(value))) == struct.pack("d", value) or isnan(value)


@pytest.mark.parametrize("dtype", [float32, float64, bfloat16], ids=str)
def test_there_is_one_nan(dtype) -> None:
    assert dtype.encode(-nan) == dtype.encode(nan)
    assert isnan(dtype.decode(dtype.encode(nan)))


@given(st.integers(-(2**70), 2**70))
def test_integers_wrap(value) -> None:
    for dtype in (int32, int64, uint32):
        bits = 8 * dtype.size
        wrapped = dtype.decode(dtype.encode(value))
        assert (wrapped - value) % 2**bits == 0
        assert np.iinfo(dtype.name).min <= wrapped <= np.iinfo(dtype.name).max


def test_bool_is_whether_the_number_is_not_zero() -> None:
    assert [bool_.decode(bool_.encode(x)) for x in (0, 0.5, -1, nan)] == [False, True, True, True]
