"""The value of every primitive on the reference device against NumPy, for its samples and for random
shapes.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as draw
from hypothesis import settings
from hypothesis import strategies as st
from primitives import (
    ELEMENTWISE,
    STRUCTURED,
    TRANSCENDENTAL,
    apply_case,
    cases,
    fill,
    given,
    numpy_dtype,
    value,
)

from engine.core import build
from engine.core.dtype import ALL, DType, bfloat16, bool_, float32, float64
from engine.core.opdef import OPS, Case, make

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, about overflow and NaN

PAIRS = [(op, dtype) for op in ELEMENTWISE for dtype in OPS[op].dtypes]
CASES = [(op, *case) for op in STRUCTURED for case in cases(OPS[op])]
shapes = st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=3).map(tuple)
numbers = st.floats(width=32) | st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, float("inf"), float("nan")]
)


def to_bfloat16(x):
    """Rounds float32 to 8 bits of mantissa, ties to even, by its bits."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return np.where(np.isnan(x), np.float32(np.nan), rounded.astype(np.uint32).view(np.float32))


def convert(x, dtype: DType):
    """The operand as ``dtype`` holds it."""
    if dtype is bfloat16:
        return to_bfloat16(x)
    return np.asarray(x).astype(numpy_dtype(dtype))


def expected(op: str, operands, dtype: DType):
    """NumPy's answer: floats in float64, then rounded once to the dtype."""
    if dtype.is_float and op not in ("lt", "le", "eq"):
        exact = ELEMENTWISE[op](*[x.astype(np.float64) for x in operands])
        return convert(exact.astype(np.float32) if dtype is bfloat16 else exact, dtype)
    return np.asarray(ELEMENTWISE[op](*operands))


def assert_same(actual, wanted, ulp: int = 0) -> None:
    """Equal shapes, dtypes, NaNs and signs of zero; numbers within ``ulp`` units in the last place."""
    assert actual.shape == wanted.shape
    assert actual.dtype == wanted.dtype
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(actual, wanted)
        return
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(wanted))
    usual = np.isfinite(wanted) & np.isfinite(actual)
    np.testing.assert_array_equal(actual[~usual], wanted[~usual])
    np.testing.assert_array_equal(np.signbit(actual[usual]), np.signbit(wanted[usual]))
    np.testing.assert_array_max_ulp(actual[usual], wanted[usual], ulp)


def last_places(op: str, dtype: DType) -> int:
    """Python's and NumPy's functions differ in the last bits of float64, which float32 no longer shows."""
    return 4 if op in TRANSCENDENTAL and dtype is float64 else int(op in TRANSCENDENTAL)


def operands_of(op: str, dtype: DType, samples):
    """Columns of the samples as arrays of ``dtype``; select's first is a predicate."""
    columns = [np.array(column, dtype=np.float64) for column in zip(*samples, strict=True)]
    converted = [convert(column, dtype) for column in columns]
    if op == "select":
        converted[0] = columns[0].astype(bool)
    return converted


def apply(op: str, operands, dtype: DType):
    nodes = [given(x, bool_ if x.dtype == bool else dtype) for x in operands]
    return value(make(op, tuple(nodes)))


@pytest.mark.parametrize(("op", "dtype"), PAIRS, ids=str)
def test_samples(op: str, dtype: DType) -> None:
    samples = OPS[op].samples
    if not dtype.is_float:
        limit = 2 if dtype is bool_ else 2**31
        samples = [s for s in samples if all(float(v).is_integer() and -limit < v < limit for v in s)]
        if dtype.name == "uint32":
            samples = [s for s in samples if min(s) >= 0]
    assert samples
    operands = operands_of(op, dtype, samples)
    assert_same(apply(op, operands, dtype), expected(op, operands, dtype), last_places(op, dtype))


@pytest.mark.parametrize("dtype", [float32, float64, bfloat16], ids=str)
@pytest.mark.parametrize("op", [op for op in ELEMENTWISE if float32 in OPS[op].dtypes])
@draw(data=st.data())
@settings(max_examples=15)
def test_any_floats(op: str, dtype: DType, data) -> None:
    count = OPS[op].arity
    samples = data.draw(st.lists(st.tuples(*[numbers] * count), min_size=1, max_size=12))
    if op in ("sin", "cos"):
        samples = [(x,) for (x,) in samples if abs(x) < 1e5] or [(0.5,)]
    operands = operands_of(op, dtype, samples)
    if op in ("floordiv", "mod"):  # tiny divisors: NumPy rounds the quotient before it is floored
        operands[1] = np.where(np.abs(operands[1]) < 1e-3, operands[1].dtype.type(1.5), operands[1])
        operands[0] = np.clip(operands[0], -1e3, 1e3)
    assert_same(apply(op, operands, dtype), expected(op, operands, dtype), last_places(op, dtype))


@pytest.mark.parametrize("dtype", [d for d in ALL if d.is_int], ids=str)
@pytest.mark.parametrize("op", [op for op in ELEMENTWISE if op not in ("shl", "shr")])
@draw(data=st.data())
@settings(max_examples=15)
def test_any_integers(op: str, dtype: DType, data) -> None:
    if dtype not in OPS[op].dtypes:
        assert op in ("div", *TRANSCENDENTAL, "sqrt", "floor", "rint")
        return
    info = np.iinfo(dtype.name)
    integers = st.integers(int(info.min), int(info.max)) | st.sampled_from(
        [int(info.min), int(info.max), 0, 1]
    )
    integers |= st.integers(0, 9) if info.min == 0 else st.integers(-9, 9)
    samples = data.draw(st.lists(st.tuples(*[integers] * OPS[op].arity), min_size=1, max_size=12))
    operands = [np.array(column, dtype.name) for column in zip(*samples, strict=True)]
    if op == "select":
        operands[0] = operands[0] > 3
    assert_same(apply(op, operands, dtype), np.asarray(ELEMENTWISE[op](*operands)))


@pytest.mark.parametrize(("op", "name", "case"), CASES, ids=str)
def test_samples_of_structured_primitives(op: str, name, case: Case) -> None:
    node = apply_case(op, case)
    inputs = [value(x) for x in node.inputs]
    wanted = STRUCTURED[op](*inputs, attrs=node.attrs)
    if op in ("reduce", "scan", "dot"):
        np.testing.assert_allclose(value(node), wanted, rtol=1e-14)
        assert value(node).dtype == wanted.dtype
    else:
        assert_same(value(node), wanted)


# ---- random shapes


@draw(shapes, st.data())
@settings(max_examples=60)
def test_reductions_over_any_axes(shape, data) -> None:
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)) if shape else st.just(set()))))
    kind = data.draw(st.sampled_from(["sum", "prod", "max", "min"]))
    if kind in ("max", "min") and any(shape[a] == 0 for a in axes):
        kind = "sum"
    x = fill(shape, 3)
    result = value(build.reduce(given(x), kind, axes))
    np.testing.assert_allclose(result, STRUCTURED["reduce"](x, (kind, axes)), rtol=1e-13, atol=1e-14)


@draw(shapes.filter(bool), st.sampled_from(["sum", "prod", "max"]), st.booleans(), st.data())
@settings(max_examples=60)
def test_scans_along_any_axis(shape, kind, reverse, data) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = fill(shape, 4)
    result = value(build.scan(given(x), kind, axis, reverse))
    np.testing.assert_allclose(result, STRUCTURED["scan"](x, (kind, axis, reverse)), rtol=1e-13)


@draw(st.lists(st.integers(0, 4), max_size=2), *[st.integers(0, 5)] * 3)
@settings(max_examples=60)
def test_products_of_any_shape(batch, m, k, n) -> None:
    a, b = fill((*batch, m, k), 1), fill((*batch, k, n), 2)
    np.testing.assert_allclose(value(build.dot(given(a), given(b))), a @ b, rtol=1e-13, atol=1e-13)


@draw(shapes, st.data())
@settings(max_examples=100)
def test_chains_of_movement(shape, data) -> None:
    x = fill(shape, 5)
    node = given(x)
    for _ in range(data.draw(st.integers(1, 5))):
        op, attrs = data.draw(movement(x.shape))
        node = make(op, (node, build.constant(7, float64))[: OPS[op].arity], *attrs)
        x = STRUCTURED[op](x, *(np.float64(7),) * (OPS[op].arity - 1), attrs=attrs)
    assert_same(value(node), np.asarray(x))


@st.composite
def movement(draw, shape):
    """A movement primitive that fits ``shape``, with its attributes."""
    rank = len(shape)
    op = draw(st.sampled_from(["reshape", "transpose", "broadcast", "slice", "pad"]))
    if op == "transpose":
        return op, (tuple(draw(st.permutations(range(rank)))),)
    if op == "pad":
        amounts = st.tuples(*[st.integers(0, 2)] * rank)
        return op, (draw(amounts), draw(amounts))
    if op == "broadcast":
        lead = draw(st.lists(st.integers(0, 2), max_size=1))
        return op, ((*lead, *[draw(st.integers(0, 3)) if size == 1 else size for size in shape]),)
    if op == "slice":
        triples = [draw(st.sampled_from(list(windows(size)))) for size in shape]
        return op, tuple(zip(*triples, strict=True)) if triples else ((), (), ())
    size = int(np.prod(shape))
    if size == 0:
        return op, ((0, *shape),)
    first = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
    return op, (draw(st.sampled_from([(first, size // first), (size,), (first, 1, size // first)])),)


def windows(size: int):
    """Slices of an axis as (start, size, step), the empty one included."""
    yield (0, 0, 1)
    for step in (-2, -1, 1, 2):
        for start in range(size):
            reachable = (size - 1 - start) // step if step > 0 else start // -step
            yield from ((start, reachable + 1, step), (start, 1, step))


@draw(st.sampled_from(["clamp", "wrap", "zero", "mirror"]), shapes, st.integers(1, 2), st.data())
@settings(max_examples=80)
def test_gather_and_scatter_in_every_mode(mode, source, count, data) -> None:
    x = fill(data.draw(st.sampled_from([(4,), (3, 2), (1, 5, 2)])), 6)
    count = min(count, x.ndim)
    size = int(np.prod(source))
    integers = st.lists(st.integers(-9, 9), min_size=size, max_size=size)
    indices = [np.array(data.draw(integers), np.int64).reshape(source) for _ in range(count)]
    nodes = tuple(map(given, indices))
    gathered = value(build.gather(given(x), nodes, mode))
    assert_same(gathered, STRUCTURED["gather"](x, *indices, attrs=(mode,)))
    values = fill(gathered.shape, 7)
    for kind in ("set", "add", "min", "max"):
        result = value(build.scatter(given(x), nodes, given(values), kind, mode))
        assert_same(result, STRUCTURED["scatter"](x, *indices, values, attrs=(kind, mode)))
