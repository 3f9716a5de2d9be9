"""Values that hardware, C or other libraries get differently: what the cpu device makes of them."""

from __future__ import annotations

import math
from math import inf, nan
from typing import Any

import pytest

from engine.core.dtype import DType, bfloat16, bool_, float32, float64, int32, int64, uint32
from engine.core.node import Node
from engine.core.opdef import make
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.toolchain import find_toolchain
from engine.errors import BoundsError, ShapeError

if find_toolchain() is None:
    pytest.skip("no C compiler here", allow_module_level=True)

CPU = CpuDevice()
LEAST32, MOST32 = -(2**31), 2**31 - 1
LEAST64, MOST64 = -(2**63), 2**63 - 1


def array(values: Any, dtype: DType) -> Array:
    flat = [values] if not isinstance(values, list) else values
    return Array.from_list(flat, (len(flat),) if isinstance(values, list) else (), dtype)


def run(op: str, *inputs: Array, attrs: tuple[Any, ...] = ()) -> Any:
    node = make(op, tuple(Node("input", (), (), x.shape, x.dtype) for x in inputs), *attrs)
    return CPU.run(op, attrs, inputs, tuple(map(int, map(str, node.shape))), node.dtype).tolist()


def equal(got: Any, want: Any) -> bool:
    """The same numbers, NaN equal to itself and zeros of one sign only."""
    if isinstance(got, list):
        return len(got) == len(want) and all(map(equal, got, want))
    if math.isnan(got) or math.isnan(want):
        return math.isnan(got) and math.isnan(want)
    return bool(got == want and math.copysign(1, got) == math.copysign(1, want))


BINARY = [
    ("floordiv", int32, [LEAST32, 5, -7, 7, -7, 0], [-1, 0, 2, -2, -2, 3], [LEAST32, 0, -4, -4, 3, 0]),
    ("floordiv", int64, [LEAST64, 5, -7, 7], [-1, 0, 2, -2], [LEAST64, 0, -4, -4]),
    ("floordiv", uint32, [7, 2**32 - 1, 5], [2, 3, 0], [3, 1431655765, 0]),
    (
        "floordiv",
        float32,
        [7.0, -7.0, 5.5, 1.0, -1.0],
        [2.0, 2.0, 0.5, inf, inf],
        [3.0, -4.0, 11.0, 0.0, -1.0],
    ),
    ("mod", int32, [-1, 1, 7, LEAST32, 5], [3, -3, 3, -1, 0], [2, -2, 1, 0, 0]),
    ("mod", int64, [-1, 1, LEAST64, 5], [3, -3, -1, 0], [2, -2, 0, 0]),
    (
        "mod",
        float32,
        [-1.0, 1.0, 5.25, -1.0, 6.0, nan],
        [3.0, -3.0, inf, inf, -3.0, 1.0],
        [2.0, -2.0, 5.25, inf, -0.0, nan],
    ),
    ("mod", float64, [-1.0, 1.0, 5.25, -1.0], [3.0, -3.0, inf, inf], [2.0, -2.0, 5.25, inf]),
    ("shl", int32, [1, 1, 1, 3, 1], [31, 32, 64, 0, -1], [LEAST32, 0, 0, 3, 0]),
    ("shl", int64, [1, 1, 1], [63, 64, 1000], [LEAST64, 0, 0]),
    ("shl", uint32, [1, 1], [31, 32], [2**31, 0]),
    ("shr", int32, [-8, -8, 8, 8], [1, 40, 40, 2], [-4, -1, 0, 2]),
    ("shr", int64, [-8, -8, 8], [1, 64, 64], [-4, -1, 0]),
    ("shr", uint32, [2**31, 2**31], [31, 32], [1, 0]),
    ("add", int32, [MOST32], [1], [LEAST32]),
    ("mul", int64, [MOST64], [2], [-2]),
    ("sub", uint32, [0], [1], [2**32 - 1]),
    ("div", float32, [1.0, 0.0, -1.0, inf], [0.0, 0.0, 0.0, inf], [inf, nan, -inf, nan]),
    ("max", float32, [nan, 1.0, -0.0, 0.0], [1.0, nan, 0.0, -0.0], [nan, nan, 0.0, 0.0]),
    ("min", float32, [nan, 1.0, -0.0, 0.0], [1.0, nan, 0.0, -0.0], [nan, nan, -0.0, -0.0]),
    ("add", float32, [-0.0, 1e-45], [-0.0, 1e-45], [-0.0, 2.802596928649634e-45]),
    ("pow", float32, [0.0, nan, 1.0, -2.0, -2.0], [0.0, 0.0, nan, 3.0, 0.5], [1.0, 1.0, 1.0, -8.0, nan]),
    ("add", bfloat16, [256.0, 1.0], [1.0, 0.00390625], [256.0, 1.0]),
]


@pytest.mark.parametrize(("op", "dtype", "a", "b", "want"), BINARY)
def test_two_operands(op: str, dtype: DType, a: list[float], b: list[float], want: list[float]) -> None:
    got = run(op, array(a, dtype), array(b, dtype))
    assert equal(got, want), got


UNARY = [
    ("abs", int32, [LEAST32, -1], [LEAST32, 1]),
    ("abs", float32, [-0.0, -inf], [0.0, inf]),
    ("neg", float32, [0.0, -0.0], [-0.0, 0.0]),
    ("sign", float32, [-2.0, 0.0, -0.0, nan], [-1.0, 0.0, -0.0, nan]),
    ("sign", int32, [LEAST32, 0, 5], [-1, 0, 1]),
    ("rint", float32, [0.5, 1.5, 2.5, -0.5, -1.5], [0.0, 2.0, 2.0, -0.0, -2.0]),
    ("floor", float32, [-0.5, -0.0, 2.7], [-1.0, -0.0, 2.0]),
    ("sqrt", float32, [-1.0, -0.0, 4.0], [nan, -0.0, 2.0]),
    ("tanh", float32, [-0.0, inf, -inf], [-0.0, 1.0, -1.0]),
    ("exp", float32, [-inf, 0.0, 1000.0, nan], [0.0, 1.0, inf, nan]),
    ("log", float32, [0.0, -0.0, 1.0, -1.0, inf], [-inf, -inf, 0.0, nan, inf]),
    ("expm1", float64, [-0.0, 1e-10], [-0.0, math.expm1(1e-10)]),
    ("log1p", float64, [-0.0, 1e-10, -1.0], [-0.0, math.log1p(1e-10), -inf]),
    ("not", int32, [0, -1], [-1, 0]),
    ("not", bool_, [True, False], [False, True]),
]


@pytest.mark.parametrize(("op", "dtype", "x", "want"), UNARY)
def test_one_operand(op: str, dtype: DType, x: list[float], want: list[float]) -> None:
    got = run(op, array(x, dtype))
    assert equal(got, want), got


CASTS = [
    (float32, int32, [1.9, -1.9, 3e9, -3e9, nan, inf, -inf], [1, -1, MOST32, LEAST32, 0, MOST32, LEAST32]),
    (float64, int32, [1.9, 2147483647.5, -2147483648.5, nan], [1, MOST32, LEAST32, 0]),
    (float32, int64, [1e19, -1e19, nan, -1.5], [MOST64, LEAST64, 0, -1]),
    (float64, int64, [9.3e18, -9.3e18, nan, 2.5], [MOST64, LEAST64, 0, 2]),
    (float32, uint32, [-1.0, 5e9, nan, 3.7], [0, 2**32 - 1, 0, 3]),
    (float64, uint32, [-0.5, 4294967295.5, nan], [0, 2**32 - 1, 0]),
    (int64, int32, [2**32 + 5, MOST64], [5, -1]),
    (int32, uint32, [-1], [2**32 - 1]),
    (uint32, int32, [2**32 - 1], [-1]),
    (uint32, int64, [2**32 - 1], [2**32 - 1]),
    (int64, float32, [2**24 + 1, 2**60 + 2**36 + 1], [2.0**24, 2.0**60 + 2.0**37]),
    (float64, float32, [1e300, 1e-300, 0.1], [inf, 0.0, 0.10000000149011612]),
    (
        float32,
        bfloat16,
        [1.00390625, 1.01171875, 3.3895e38, nan, inf],
        [1.0, 1.015625, 3.3895313892515355e38, nan, inf],
    ),
    (bfloat16, int32, [2.5, nan], [2, 0]),
    (bfloat16, float64, [1.015625], [1.015625]),
    (float32, bool_, [0.0, -0.0, nan, 0.5], [False, False, True, True]),
    (int64, bool_, [0, 2**40], [False, True]),
    (bool_, float32, [True, False], [1.0, 0.0]),
    (bool_, int64, [True, False], [1, 0]),
]


@pytest.mark.parametrize(("old", "new", "x", "want"), CASTS)
def test_cast(old: DType, new: DType, x: list[float], want: list[float]) -> None:
    got = run("cast", array(x, old), attrs=(new,))
    assert equal(got, want), got


def test_a_bitcast_shows_one_nan() -> None:
    payload = Array.from_bytes(bytes.fromhex("0100c0ff010080ff"), (2,), float32)  # two NaNs with payloads
    assert run("bitcast", payload, attrs=(int32,)) == [0x7FC00000] * 2


def test_a_float_is_rounded_between_operations() -> None:
    """0.1·10 - 1 is 0 in float32; a fused multiply-add would give 1.49e-8."""
    product = CPU.run("mul", (), [array(0.1, float32), array(10.0, float32)], (), float32)
    assert run("sub", product, array(1.0, float32)) == 0.0


EMPTY = [
    ("sum", float32, 0.0),
    ("prod", float32, 1.0),
    ("sum", int64, 0),
    ("all", bool_, True),
    ("any", bool_, False),
]


@pytest.mark.parametrize(("kind", "dtype", "want"), EMPTY)
def test_the_reduction_of_nothing(kind: str, dtype: DType, want: float) -> None:
    nothing = Array.from_list([], (0, 3), dtype)
    assert run("reduce", nothing, attrs=(kind, (0,))) == [want] * 3
    assert run("reduce", nothing, attrs=(kind, (0, 1))) == want
    assert run("reduce", nothing, attrs=(kind, (1,))) == []


def test_the_extreme_of_nothing_does_not_exist() -> None:
    with pytest.raises(ShapeError, match="the axis is empty"):
        run("reduce", Array.from_list([], (0,), float32), attrs=("max", (0,)))


def test_a_sum_of_minus_zeros_is_minus_zero() -> None:
    assert equal(run("reduce", array([-0.0] * 70, float32), attrs=("sum", (0,))), -0.0)


def test_extremes_yield_nan_and_order_zeros() -> None:
    assert equal(run("reduce", array([1.0, nan, 3.0], float32), attrs=("max", (0,))), nan)
    assert equal(run("reduce", array([0.0, -0.0], float32), attrs=("min", (0,))), -0.0)
    assert equal(run("reduce", array([-0.0, 0.0], float32), attrs=("max", (0,))), 0.0)


def test_the_position_of_an_extreme_is_the_first_and_nan_wins() -> None:
    assert run("argreduce", array([1.0, 3.0, 3.0], float32), attrs=("max", 0)) == 1
    assert run("argreduce", array([1.0, nan, 7.0, nan], float32), attrs=("max", 0)) == 1
    assert run("argreduce", array([1.0, nan, 7.0, nan], float32), attrs=("min", 0)) == 1


def test_integers_sum_without_wrapping() -> None:
    wide = CPU.run("cast", (int64,), [array([MOST32, 1], int32)], (2,), int64)
    assert run("reduce", wide, attrs=("sum", (0,))) == 2**31
    bools = CPU.run("cast", (int64,), [array([True] * 300, bool_)], (300,), int64)
    assert run("reduce", bools, attrs=("sum", (0,))) == 300


def test_a_product_over_nothing_is_plus_zero() -> None:
    a, b = Array.from_list([], (2, 0), float32), Array.from_list([], (0, 3), float32)
    assert equal(run("dot", a, b), [[0.0] * 3] * 2)


def test_the_product_of_a_view_with_itself() -> None:
    x = Array.from_list(range(6), (2, 3), float32)
    turned = CPU.run("transpose", ((1, 0),), [x], (3, 2), float32)
    assert run("dot", turned, x) == [[9.0, 12.0, 15.0], [12.0, 17.0, 22.0], [15.0, 22.0, 29.0]]


def test_scatter_adds_in_order_from_the_old_value() -> None:
    """((0.1 + 1e8) - 1e8) is 0 in float32, any other order gives something else."""
    x, index = array([0.1], float32), array([0, 0], int64)
    assert run("scatter", x, index, array([1e8, -1e8], float32), attrs=("add", "checked")) == [0.0]


def test_scatter_set_keeps_the_last() -> None:
    x, index = array([0, 0, 0], int32), array([1, 2, 1], int64)
    assert run("scatter", x, index, array([5, 6, 7], int32), attrs=("set", "checked")) == [0, 7, 6]


def test_a_checked_scatter_names_the_index_its_place_and_the_axis() -> None:
    x, index = array([0, 0, 0], int32), Array.from_list([0, 1, 2, -1], (2, 2), int64)
    values = Array.from_list([1, 2, 3, 4], (2, 2), int32)
    with pytest.raises(BoundsError, match=r"scatter: index -1 at position \(1, 1\) .* axis 0 of size 3"):
        run("scatter", x, index, values, attrs=("add", "checked"))
    assert x.tolist() == [0, 0, 0]


def test_scatter_of_nothing_changes_nothing() -> None:
    x = array([1, 2], int32)
    assert run("scatter", x, array([], int64), array([], int32), attrs=("add", "checked")) == [1, 2]


def test_bool_selects_among_bools() -> None:
    pred, a, b = (array(bits, bool_) for bits in ([True, False], [False, False], [True, True]))
    assert run("select", pred, a, b) == [False, True]


def test_more_than_eight_separate_axes_are_refused_with_the_fix() -> None:
    x = Array.from_list(range(2**10), (2,) * 10, int32)
    odd = CPU.run("slice", ((0,) * 10, (1, 2) * 5, (1,) * 10), [x], (1, 2) * 5, int32)
    assert len(run("reshape", odd, attrs=((32,),))) == 32
    order = (9, 7, 5, 3, 1, 8, 6, 4, 2, 0)
    turned = CPU.run("transpose", (order,), [x], (2,) * 10, int32)
    with pytest.raises(ShapeError, match="at most 8"):
        run("reshape", turned, attrs=((1024,),))
