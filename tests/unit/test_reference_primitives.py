"""Conversions, bits, integers, random words and indices of the reference device: values written out."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from primitives import given, value

from engine.core import build as b
from engine.core.dtype import bfloat16, bool_, float32, float64, int32, int64, uint32
from engine.devices.reference import ReferenceDevice
from engine.devices.reference.random import philox
from engine.errors import BoundsError, DeviceError

LOW, HIGH = -(2**31), 2**31 - 1


def cast(values, old, new):
    return value(b.cast(given(np.array(values), old), new)).tolist()


def test_floats_become_integers_toward_zero_and_saturate() -> None:
    for old in (float32, float64):
        assert cast([1.9, -1.9, 3e9, -3e9, inf, -inf, nan], old, int32) == [1, -1, HIGH, LOW, HIGH, LOW, 0]
        assert cast([1.9, -1.9, 5e9, inf, nan], old, uint32) == [1, 0, 2**32 - 1, 2**32 - 1, 0]
        assert cast([1e30, -inf], old, int64) == [2**63 - 1, -(2**63)]


def test_integers_wrap_and_bools_say_whether_not_zero() -> None:
    assert cast([2**32 + 5, -1, 2**31], int64, int32) == [5, -1, LOW]
    assert cast([-1], int32, uint32) == [2**32 - 1]
    assert cast([0.0, -0.0, 0.5, nan], float32, bool_) == [False, False, True, True]
    assert cast([True, False], bool_, float32) == [1.0, 0.0]


def test_floats_round_once() -> None:
    assert cast([2**24 + 1, 2**54 + 2**30 + 1], int64, float32) == [2**24, 2**54 + 2**31]
    assert cast([1 + 2**-9, 1 + 2**-8 + 2**-20], float64, bfloat16) == [1.0, 1 + 2**-7]
    with np.errstate(over="ignore"):
        assert cast([1e39, -1e39, 1e-46], float64, float32) == [inf, -inf, 0.0]


def test_bits_of_numbers() -> None:
    numbers = given(np.array([1.0, -0.0]), float32)
    assert value(b.bitcast(numbers, uint32)).tolist() == [0x3F800000, 0x80000000]
    assert value(b.bitcast(given(np.array([0x40490FDB]), uint32), float32)).tolist() == [np.float32(np.pi)]
    strange = b.bitcast(given(np.array([0xFFC00123, 0x7F800001]), uint32), float32)
    assert np.isnan(value(strange)).all()
    assert value(b.bitcast(strange, uint32)).tolist() == [0x7FC00000] * 2  # one NaN


def test_integer_division_never_traps() -> None:
    x, y = given(np.array([LOW, 5, -7, 7, -7]), int32), given(np.array([-1, 0, 2, -2, -2]), int32)
    assert value(b.floordiv(x, y)).tolist() == [LOW, 0, -4, -4, 3]
    assert value(b.mod(x, y)).tolist() == [0, 0, 1, -1, -1]
    assert value(b.abs(given(np.array([LOW]), int32))).tolist() == [LOW]
    assert value(b.add(given(np.array([HIGH]), int32), given(np.array([1]), int32))).tolist() == [LOW]


def test_shifts_by_the_width_or_more() -> None:
    def shift(op, x, by, dtype=int32):
        return value(op(given(np.array([x]), dtype), given(np.array([by]), dtype))).tolist()[0]

    assert [shift(b.shl, 1, by) for by in (0, 4, 31, 32, 40, -1)] == [1, 16, LOW, 0, 0, 0]
    assert [shift(b.shr, -8, by) for by in (0, 1, 31, 32, 40, -1)] == [-8, -4, -1, -1, -1, -1]
    assert [shift(b.shr, 2**31, by, uint32) for by in (1, 31, 32)] == [2**30, 1, 0]
    assert shift(b.shl, 1, 63, int64) == -(2**63)


def test_rounding_and_signs() -> None:
    assert str(value(b.rint(given(np.array([0.5, 1.5, 2.5, -0.5])))).tolist()) == "[0.0, 2.0, 2.0, -0.0]"
    assert str(value(b.sign(given(np.array([0.0, -0.0, -3.0])))).tolist()) == "[0.0, -0.0, -1.0]"
    assert str(value(b.tanh(given(np.array([-0.0])))).tolist()) == "[-0.0]"


def test_nothing_is_contracted() -> None:
    # 0.1f · 10 is 1 when the product is rounded before the difference
    x, ten, one = (given(np.array([v]), float32) for v in (0.1, 10, 1))
    assert value(b.sub(b.mul(x, ten), one)).tolist() == [0.0]


def test_the_first_extreme_wins_and_nan_counts_as_extreme() -> None:
    x = given(np.array([1.0, 3, 3, 0, 0]))
    assert value(b.argreduce(x, "max", 0)).tolist() == 1
    assert value(b.argreduce(x, "min", 0)).tolist() == 3
    assert value(b.argreduce(given(np.array([1.0, nan, 9, nan])), "max", 0)).tolist() == 1


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_words(counter, key, words) -> None:
    assert philox(counter, key) == words


def test_random_words_depend_on_position_and_call_only() -> None:
    key, ordinal = given(np.array([7, 9]), uint32), given(np.array(3), uint32)
    words = value(b.random_bits(key, ordinal, (10,))).tolist()
    assert (
        words
        == [*philox((0, 0, 3, 0), (7, 9)), *philox((1, 0, 3, 0), (7, 9)), *philox((2, 0, 3, 0), (7, 9))][:10]
    )
    assert value(b.random_bits(key, ordinal, (3, 2))).ravel().tolist() == words[:6]
    assert value(b.random_bits(key, given(np.array(4), uint32), (10,))).tolist() != words


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("clamp", [0, 0, 0, 1, 2, 2, 2, 2]),
        ("wrap", [2, 0, 0, 1, 2, 0, 1, 0]),
        ("mirror", [2, 0, 0, 1, 2, 2, 1, 0]),
    ],
)
def test_indices_out_of_range_are_brought_into_range(mode, wanted) -> None:
    x = given(np.arange(3.0))
    index = given(np.array([-4, -3 if mode == "wrap" else -1, 0, 1, 2, 3, 4, 6]))
    assert value(b.gather(x, (index,), mode)).tolist() == wanted


def test_mode_zero_reads_zero_and_drops_writes() -> None:
    x, index = given(np.array([5.0, 6])), given(np.array([-1, 1, 2]))
    assert value(b.gather(x, (index,), "zero")).tolist() == [0, 6, 0]
    assert value(b.scatter(x, (index,), given(np.array([1.0, 2, 3])), "add", "zero")).tolist() == [5, 8]


def test_a_checked_index_out_of_range_is_named() -> None:
    x, index = given(np.zeros((4, 2))), given(np.array([0, 7]))
    with pytest.raises(BoundsError, match=r"gather: index 7 is out of range for axis 0 of size 4; .* 0 to 3"):
        value(b.gather(x, (index,), "checked"))
    with pytest.raises(IndexError, match=r"scatter: index -1 .* axis 1 of size 2"):
        zero = given(np.array([0]))
        value(b.scatter(x, (zero, given(np.array([-1]))), given(np.ones(1)), "set", "checked"))


def test_what_it_does_not_compute_is_named() -> None:
    with pytest.raises(DeviceError, match="does not compute 'input'"):
        ReferenceDevice().run("input", (), [], (), float32)


def test_products_of_integers_wrap() -> None:
    a = given(np.array([[HIGH, 1]]), int32)
    assert value(b.dot(a, given(np.array([[2], [5]]), int32))).tolist() == [[3]]
    assert value(b.reduce(given(np.array([2**62] * 4)), "sum", (0,))).tolist() == 0
