"""The cpu device has the bits of the pure-Python reference, for every primitive, dtype, shape and layout.

Where the reference takes a function from Python's math, which is not ours, last places may differ.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.dtype import ALL, NUMBERS, DType, bfloat16, bool_, float32, float64, int32, int64, uint32
from engine.core.node import Node
from engine.core.opdef import OPS, make
from engine.devices.array import Array, view
from engine.devices.cpu import CpuDevice
from engine.devices.reference import OTHER_BITS, ReferenceDevice
from engine.devices.toolchain import find_toolchain
from engine.errors import BoundsError

if find_toolchain() is None:
    pytest.skip("no C compiler here", allow_module_level=True)

CPU = CpuDevice()
REFERENCE = ReferenceDevice()
ELEMENTWISE = [
    (name, dtype)
    for name, row in OPS.items()
    if row.kind == "elementwise" and name not in ("cast", "bitcast")
    for dtype in row.dtypes
]
SPECIAL_FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -0.5,
    math.inf,
    -math.inf,
    math.nan,
    1e-40,
    -3e-39,
    3.3e38,
)
SPECIAL_INTS = (0, 1, -1, 2, 7, 31, 32, 64, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63))
sizes = st.one_of(st.integers(0, 5), st.sampled_from([1, 1, 17, 33, 70]))
shapes = st.lists(sizes, max_size=4).map(tuple).filter(lambda shape: prod(shape) <= 3000)
seeds = st.integers(0, 2**32)
quick = settings(max_examples=12, deadline=None)


def number(rng: random.Random, dtype: DType) -> float:
    if dtype is bool_:
        return rng.random() < 0.5
    if dtype.is_float:
        if rng.random() < 0.2:
            return rng.choice(SPECIAL_FLOATS)
        return rng.gauss(0, 1) * 10 ** rng.uniform(-4, 4)
    return rng.choice(SPECIAL_INTS) if rng.random() < 0.3 else rng.randrange(-50, 50)


def filled(rng: random.Random, shape: tuple[int, ...], dtype: DType) -> Array:
    """An array of that shape with mixed values, behind a random stack of views."""
    order = list(range(len(shape)))
    rng.shuffle(order)
    steps = [rng.choice((1, 1, 1, 2, -1)) for _ in shape]
    spread = [size if rng.random() < 0.8 else 1 for size in shape]  # 1: one element seen along the axis
    base = tuple(max(1, size) * abs(step) for size, step in zip(spread, steps, strict=True))
    turned = tuple(base[axis] for axis in order)
    x = Array.from_list([number(rng, dtype) for _ in range(prod(turned))], turned, dtype)
    back = tuple(order.index(axis) for axis in range(len(shape)))
    starts = tuple(0 if step > 0 else size - 1 for step, size in zip(steps, base, strict=True))
    kept = tuple(size if size != 0 else 0 for size in spread)
    views = (("transpose", (back,)), ("slice", (starts, kept, tuple(steps))), ("broadcast", (shape,)))
    for op, attrs in views:
        moved = view(op, attrs, x)
        assert moved is not None
        x = moved
    return x


def both(op: str, attrs: tuple[Any, ...], inputs: Sequence[Array]) -> tuple[Array, Array]:
    """The value of one primitive on the cpu and on the reference device."""
    node = make(op, tuple(Node("input", (), (), x.shape, x.dtype) for x in inputs), *attrs)
    shape = tuple(int(str(size)) for size in node.shape)
    got, want = (device.run(op, attrs, inputs, shape, node.dtype) for device in (CPU, REFERENCE))
    for value in (got, want):
        assert (value.shape, value.dtype) == (shape, node.dtype)
    return got, want


def assert_same(got: Array, want: Array, ulps: int = 0) -> None:
    for i, (a, b) in enumerate(zip(ordered(got), ordered(want), strict=True)):
        if a != b and (a is None or b is None or abs(a - b) > ulps):
            raise AssertionError(f"element {i} is {values(got)[i]!r}, the reference has {values(want)[i]!r}")


def values(x: Array) -> list[Any]:
    raw = x.tobytes()
    return [x.dtype.decode(raw[i : i + x.dtype.size]) for i in range(0, len(raw), x.dtype.size)]


def ordered(x: Array) -> list[int | None]:
    """Integers that are one apart for neighbouring values; None for NaN, and -0 below +0."""
    code, sign = {"float32": ("i", 31), "float64": ("q", 63), "bfloat16": ("h", 15)}.get(
        x.dtype.name, ("", 0)
    )
    if not code:
        return [int(value) for value in values(x)]
    bits = struct.unpack(f"<{prod(x.shape)}{code}", x.tobytes())
    return [
        None if math.isnan(value) else (bit if bit >= 0 else -1 - (bit & ((1 << sign) - 1)))
        for bit, value in zip(bits, values(x), strict=True)
    ]


@pytest.mark.parametrize(("op", "dtype"), ELEMENTWISE, ids=str)
@given(shape=shapes, seed=seeds)
@quick
def test_elementwise(op: str, dtype: DType, shape: tuple[int, ...], seed: int) -> None:
    rng = random.Random(seed)
    operands = [filled(rng, shape, dtype) for _ in range(OPS[op].arity or 0)]
    if op == "select":
        operands[0] = filled(rng, shape, bool_)
    assert_same(*both(op, (), operands), ulps=3 if op in OTHER_BITS and dtype.is_float else 0)


@pytest.mark.parametrize("new", ALL, ids=str)
@pytest.mark.parametrize("old", ALL, ids=str)
@given(shape=shapes, seed=seeds)
@quick
def test_cast(old: DType, new: DType, shape: tuple[int, ...], seed: int) -> None:
    assert_same(*both("cast", (new,), [filled(random.Random(seed), shape, old)]))


@pytest.mark.parametrize(
    ("old", "new"),
    [(a, b) for a in NUMBERS for b in NUMBERS if a.size == b.size],
    ids=str,
)
@given(shape=shapes, seed=seeds)
@quick
def test_bitcast(old: DType, new: DType, shape: tuple[int, ...], seed: int) -> None:
    assert_same(*both("bitcast", (new,), [filled(random.Random(seed), shape, old)]))


@pytest.mark.parametrize("dtype", ALL, ids=str)
@given(shape=shapes, seed=seeds)
@quick
def test_movement(dtype: DType, shape: tuple[int, ...], seed: int) -> None:
    rng = random.Random(seed)
    x = filled(rng, shape, dtype)
    assert_same(*both("reshape", ((prod(shape),),), [x]))
    low, high = ([rng.randrange(3) for _ in shape] for _ in range(2))
    assert_same(*both("pad", (tuple(low), tuple(high)), [x, filled(rng, (), dtype)]))
    if shape:
        axis = rng.randrange(len(shape))
        other = list(shape)
        other[axis] = rng.randrange(4)
        assert_same(*both("concat", (axis,), [x, filled(rng, tuple(other), dtype), x]))
        numbers = rng.choice(NUMBERS)
        assert_same(*both("iota", (shape, axis, numbers), []))


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "any", "all"])
@given(shape=shapes, seed=seeds)
@settings(max_examples=40, deadline=None)
def test_reduce(kind: str, shape: tuple[int, ...], seed: int) -> None:
    rng = random.Random(seed)
    dtype = rng.choice(reduced_dtypes(kind))
    axes = tuple(axis for axis in range(len(shape)) if rng.random() < 0.5)
    if kind in ("max", "min") and any(shape[axis] == 0 for axis in axes):
        return
    assert_same(*both("reduce", (kind, axes), [filled(rng, shape, dtype)]))


@pytest.mark.parametrize("dtype", [float32, float64, bfloat16], ids=str)
@pytest.mark.parametrize(
    ("shape", "axes"), [((9001,), (0,)), ((4097, 3), (0,)), ((3, 4200), (1,)), ((70, 65, 5), (0, 1))]
)
def test_long_reductions(shape: tuple[int, ...], axes: tuple[int, ...], dtype: DType) -> None:
    rng = random.Random(1)
    x = Array.from_list([rng.gauss(0, 1) for _ in range(prod(shape))], shape, dtype)
    for kind in ("sum", "max"):
        assert_same(*both("reduce", (kind, axes), [x]))


def reduced_dtypes(kind: str) -> list[DType]:
    if kind in ("any", "all"):
        return [bool_]
    floats = [float32, float64, bfloat16, int64]
    return [*floats, int32, uint32] if kind in ("max", "min") else floats


@pytest.mark.parametrize("kind", ["max", "min"])
@given(shape=shapes.filter(lambda shape: len(shape) > 0), seed=seeds)
@settings(max_examples=40, deadline=None)
def test_argreduce(kind: str, shape: tuple[int, ...], seed: int) -> None:
    rng = random.Random(seed)
    axis = rng.randrange(len(shape))
    if shape[axis]:
        assert_same(*both("argreduce", (kind, axis), [filled(rng, shape, rng.choice(NUMBERS))]))


@pytest.mark.parametrize("kind", ["sum", "prod", "max"])
@given(shape=shapes.filter(lambda shape: len(shape) > 0), seed=seeds, reverse=st.booleans())
@settings(max_examples=40, deadline=None)
def test_scan(kind: str, shape: tuple[int, ...], seed: int, reverse: bool) -> None:
    rng = random.Random(seed)
    x = filled(rng, shape, rng.choice(reduced_dtypes(kind)))
    assert_same(*both("scan", (kind, rng.randrange(len(shape)), reverse), [x]))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@given(
    batch=st.lists(st.integers(0, 3), max_size=2),
    product=st.tuples(
        st.integers(0, 5), st.sampled_from([0, 1, 2, 7, 40, 400]), st.sampled_from([0, 1, 3, 17])
    ),
    seed=seeds,
)
@quick
def test_dot(dtype: DType, batch: list[int], product: tuple[int, int, int], seed: int) -> None:
    rng = random.Random(seed)
    m, k, n = product
    assert_same(*both("dot", (), [filled(rng, (*batch, m, k), dtype), filled(rng, (*batch, k, n), dtype)]))


@given(shape=shapes, seed=seeds)
@quick
def test_random_bits(shape: tuple[int, ...], seed: int) -> None:
    rng = random.Random(seed)
    key = Array.from_list([rng.getrandbits(32), rng.getrandbits(32)], (2,), uint32)
    ordinal, turn = (Array.from_list([rng.getrandbits(32)], (), uint32) for _ in range(2))
    turned = view("slice", ((1,), (2,), (-1,)), key)
    assert turned is not None
    for stored in (key, turned):
        assert_same(*both("random_bits", (shape,), [stored, ordinal, turn]))


def indices(
    rng: random.Random, count: int, shape: tuple[int, ...], sizes: Sequence[int], mode: str
) -> list[Array]:
    """Index arrays, some indices out of range where the mode allows it."""
    made = []
    for size in sizes[:count]:
        dtype = rng.choice((int32, int64, uint32))
        reach = 0 if mode == "checked" else 2 * size + 2
        low = 0 if dtype is uint32 else -reach
        numbers = [rng.randrange(low, size + reach) for _ in range(prod(shape))]
        made.append(Array.from_list(numbers, shape, dtype))
    return made


@pytest.mark.parametrize("mode", ["clamp", "wrap", "zero", "mirror", "checked"])
@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple),
    positions=st.lists(st.integers(0, 9), max_size=2).map(tuple),
    seed=seeds,
)
@settings(max_examples=40, deadline=None)
def test_gather_and_scatter(mode: str, shape: tuple[int, ...], positions: tuple[int, ...], seed: int) -> None:
    rng = random.Random(seed)
    dtype = rng.choice(ALL)
    count = rng.randint(1, len(shape))
    where = indices(rng, count, positions, shape, mode)
    x = filled(rng, shape, dtype)
    assert_same(*both("gather", (mode,), [x, *where]))
    kinds = ["set"]
    kinds += ["and", "or", "xor"] if not dtype.is_float else []
    kinds += ["add", "min", "max"] if dtype is not bool_ else []
    values = filled(rng, (*positions, *shape[count:]), dtype)
    assert_same(*both("scatter", (rng.choice(kinds), mode), [x, *where, values]))


@pytest.mark.parametrize("device", [CPU, REFERENCE], ids=lambda device: device.name)
def test_a_checked_index_out_of_range_is_an_error_that_names_it(device: CpuDevice | ReferenceDevice) -> None:
    x = Array.from_list(range(6), (3, 2), int32)
    index = Array.from_list([0, 2, 3], (3,), int64)
    with pytest.raises(BoundsError, match=r"gather: index 3 .*axis 0 of size 3"):
        device.run("gather", ("checked",), [x, index], (3, 2), int32)
