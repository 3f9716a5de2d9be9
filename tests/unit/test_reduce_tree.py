"""Reductions and scans equal their scalar definitions bit for bit, along any axes, for every compiler."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_build import EACH_BUILD, loader

Floats = np.ndarray[Any, Any]
KINDS = ("sum", "prod", "max", "min")
FLOATS = ("f32", "f64", "bf16")
SUFFIX = {"float32": "f32", "float64": "f64", "int32": "i32", "uint32": "u32", "int64": "i64", "bool": "b8"}


def chunk_function(kernel: str) -> str:
    """The function of reduce.h behind an exported kernel: gm_argreduce_max_f32 is gm_chunk_argmax_f32."""
    _, op, kind, suffix = kernel.split("_")
    prefix = {"reduce": "", "argreduce": "arg", "scan": "scan_"}[op]
    return f"gm_chunk_{prefix}{kind}_{suffix}"


KERNELS = [f"gm_reduce_{k}_{s}" for k in KINDS for s in (*FLOATS, "i64")]
KERNELS += [f"gm_reduce_{k}_{s}" for k in ("max", "min") for s in ("i32", "u32")]
KERNELS += ["gm_reduce_any_b8", "gm_reduce_all_b8"]
KERNELS += [f"gm_argreduce_{k}_{s}" for k in ("max", "min") for s in (*FLOATS, "i32", "u32", "i64")]
KERNELS += [f"gm_scan_{k}_{s}" for k in ("sum", "prod", "max") for s in (*FLOATS, "i64")]
KERNELS += ["gm_scan_max_i32", "gm_scan_max_u32"]
PROTOTYPES = """
    void gm_pool_set(int threads);
    void gm_run(void (*f)(void **, const int64_t *, int64_t), void **bufs, const int64_t *dims, int64_t);
    int64_t gm_reduce_chunks(const int64_t *);
    int64_t gm_scan_chunks(const int64_t *);
""" + "".join(f"void {name}(void **, const int64_t *, int64_t);" for name in KERNELS)
EXPORTS = "".join(
    f"void {name}(void **b, const int64_t *d, int64_t c) {{ {chunk_function(name)}(b, d, c); }}\n"
    for name in KERNELS
)
COUNTS = """
int64_t gm_reduce_chunks(const int64_t *dims) { return gm_reduction_chunks(dims); }
int64_t gm_scan_chunks(const int64_t *dims) { return gm_scan_chunk_count(dims); }
"""
load = loader('#include "reduce.h"\n#include "runtime.c"\n' + EXPORTS + COUNTS, PROTOTYPES)


# ---- the definitions: every value may be a row of columns, which NumPy combines one by one ----


def greater(a: Floats, b: Floats) -> Floats:
    """The maximum with NaN where either is NaN and -0 before +0."""
    larger = np.where((a > b) | ((a == b) & np.signbit(b)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), np.array(np.nan, a.dtype), larger)


COMBINE: dict[str, Callable[[Floats, Floats], Floats]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": greater,
    "min": lambda a, b: -greater(-a, -b),
}


def block_tree(block: Floats, combine: Callable[[Floats, Floats], Floats]) -> Floats:
    lanes = list(block[:64])
    for k in range(64, len(block)):
        lanes[k % 64] = combine(lanes[k % 64], block[k])
    for h in (32, 16, 8, 4, 2, 1):
        for lane in range(h):
            if lane + h < len(lanes):
                lanes[lane] = combine(lanes[lane], lanes[lane + h])
    return np.asarray(lanes[0])


def define_reduce(kind: str, values: Floats) -> Floats:
    """Reduces the first axis."""
    combine = COMBINE[kind]
    if len(values) == 0:
        return np.full(values.shape[1:], {"sum": 0.0, "prod": 1.0}[kind], values.dtype)
    nodes: list[tuple[int, Floats]] = []  # blocks below, value
    for start in range(0, len(values), 4096):
        nodes.append((1, block_tree(values[start : start + 4096], combine)))
        while len(nodes) > 1 and nodes[-2][0] == nodes[-1][0]:
            (size, left), (_, right) = nodes[-2:]
            nodes[-2:] = [(2 * size, combine(left, right))]
    while len(nodes) > 1:
        (_, left), (_, right) = nodes[-2:]
        nodes[-2:] = [(0, combine(left, right))]
    return nodes[0][1]


def define_scan(kind: str, values: Floats) -> Floats:
    """Scans the first axis."""
    combine, out = COMBINE[kind], values.copy()
    for k in range(len(values)):
        if k % 1024:
            out[k] = combine(out[k - 1], values[k])
    for k in range(1024, len(values)):
        out[k] = combine(out[k // 1024 * 1024 - 1], out[k])
    return out


# ---- calls ----


def layout(x: Floats, axes: Sequence[int], *others: Floats) -> list[int]:
    """Shape of those axes and the strides of each array along them, in the form the kernels read."""
    shape = [x.shape[i] for i in axes] or [1]
    result = [len(shape), *shape]
    for array in (x, *others):
        strides = [array.strides[i] // array.itemsize for i in axes] or [0]
        result += [2, *strides]
    return result


def widened(x: Floats) -> Floats:
    return (x.astype(np.uint32) << 16).view(np.float32)


def rounded(x: Floats) -> Floats:
    bits = np.array(x, np.float32).view(np.uint32)
    return np.where(np.isnan(x), 0x7FC0, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def launch(
    name: str, out: tuple[Floats, int], x: tuple[Floats, int], dims: list[int], *, build: str, threads: int
) -> None:
    ffi, lib = load(build)
    c_dims = ffi.new("int64_t[]", dims)
    chunks = (lib.gm_scan_chunks if "scan" in name else lib.gm_reduce_chunks)(c_dims)
    addresses = [array.ctypes.data + array.itemsize * offset for array, offset in (out, x)]
    bufs = ffi.new("void *[]", [ffi.cast("void *", address) for address in addresses])
    lib.gm_pool_set(threads)
    lib.gm_run(getattr(lib, name), bufs, c_dims, chunks)


def suffix_of(x: Floats) -> str:
    return "bf16" if x.dtype == np.uint16 else SUFFIX[x.dtype.name]


def reduce(
    kind: str, x: Floats, axes: Sequence[int], build: str = "gcc", *, threads: int = 1, prefix: str = "reduce"
) -> Floats:
    kept = [i for i in range(x.ndim) if i not in axes]
    out = np.empty([x.shape[i] for i in kept], np.int64 if prefix == "argreduce" else x.dtype)
    dims = layout(x, kept) + layout(x, axes)
    launch(f"gm_{prefix}_{kind}_{suffix_of(x)}", (out, 0), (x, 0), dims, build=build, threads=threads)
    return out


def scan(
    kind: str, x: Floats, axis: int, reverse: bool = False, build: str = "gcc", *, threads: int = 1
) -> Floats:
    out = np.empty(x.shape, x.dtype)
    others = [i for i in range(x.ndim) if i != axis]
    steps = [array.strides[axis] // array.itemsize for array in (x, out)]
    ends = [step * (x.shape[axis] - 1) if reverse else 0 for step in steps]
    signed = [-step if reverse else step for step in steps]
    dims = [x.shape[axis], *signed, *layout(x, others, out)]
    launch(f"gm_scan_{kind}_{suffix_of(x)}", (out, ends[1]), (x, ends[0]), dims, build=build, threads=threads)
    return out


def expected_reduce(kind: str, x: Floats, axes: Sequence[int]) -> Floats:
    kept = [i for i in range(x.ndim) if i not in axes]
    length = math.prod(x.shape[i] for i in axes)
    moved = x.transpose(*axes, *kept).reshape(length, *[x.shape[i] for i in kept])
    if x.dtype == np.uint16:
        return rounded(define_reduce(kind, widened(moved)))
    return define_reduce(kind, moved)


def same_bits(x: Floats, y: Floats) -> None:
    assert x.shape == y.shape and x.dtype == y.dtype
    is_float = x.dtype.kind == "f"
    both_nan = np.isnan(x) & np.isnan(y) if is_float else np.zeros(x.shape, bool)
    bits = f"u{x.itemsize}"
    different = (np.ascontiguousarray(x).view(bits) != np.ascontiguousarray(y).view(bits)) & ~both_nan
    assert not different.any(), f"{different.sum()} of {x.size} differ, first at {np.argwhere(different)[0]}"


def numbers(rng: np.random.Generator, shape: Sequence[int], suffix: str, kind: str) -> Floats:
    """Numbers whose sums and products round at every step; for max and min many ties, zeros of both signs."""
    values: Floats
    if kind == "prod":
        values = 1 + rng.standard_normal(shape) / 50
    elif kind == "sum":
        values = rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 12, shape)
    else:
        values = rng.integers(-3, 1, shape) * np.where(rng.random(shape) < 0.5, 0.0, 1.0)
    if suffix == "bf16":
        return rounded(values.astype(np.float32))
    return values.astype({"f32": np.float32, "f64": np.float64}[suffix])


@functools.cache
def column_case(kind: str, suffix: str, n: int, width: int) -> tuple[Floats, Floats]:
    x = numbers(np.random.default_rng(n + width), (n, width), suffix, kind)
    return x, expected_reduce(kind, x, [0])


# ---- tests ----

LENGTHS = (0, 1, 2, 63, 64, 65, 100, 4095, 4096, 4097, 5 * 4096 + 3)


@pytest.mark.parametrize("build", EACH_BUILD)
@pytest.mark.parametrize("suffix", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_length(kind: str, suffix: str, build: str) -> None:
    for n in LENGTHS:
        if n == 0 and kind in ("max", "min"):
            continue
        x, expected = column_case(kind, suffix, n, 5)
        same_bits(reduce(kind, np.ascontiguousarray(x.T), [1], build), expected)


@pytest.mark.parametrize("build", EACH_BUILD)
@pytest.mark.parametrize("suffix", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_every_length_and_width(kind: str, suffix: str, build: str) -> None:
    for n in LENGTHS:
        for width in (1, 2, 5, 16, 65, 150):
            if (n == 0 and kind in ("max", "min")) or n * width > 300_000:
                continue
            x, expected = column_case(kind, suffix, n, width)
            same_bits(reduce(kind, x, [0], build, threads=2), expected)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=st.lists(st.integers(0, 20), min_size=1, max_size=4),
    mask=st.integers(0, 15),
    order=st.permutations(range(4)),
    kind=st.sampled_from(KINDS),
    suffix=st.sampled_from(FLOATS),
    step=st.sampled_from([1, 2, -1]),
    threads=st.sampled_from([1, 3]),
)
def test_any_axes_of_any_view(  # noqa: PLR0917
    shape: list[int], mask: int, order: list[int], kind: str, suffix: str, step: int, threads: int
) -> None:
    axes = [i for i in range(len(shape)) if mask >> i & 1] or [0]
    x = numbers(np.random.default_rng(3), [*shape[:-1], 2 * shape[-1]], suffix, kind)[..., ::step]
    x = x.transpose([i for i in order if i < x.ndim])
    if kind in ("max", "min") and 0 in (x.shape[i] for i in axes):
        return
    same_bits(reduce(kind, x, axes, threads=threads), expected_reduce(kind, x, axes))


@pytest.mark.parametrize("build", ["gcc", "gcc-avx2", "zig"])
def test_two_reduced_axes_flatten_row_major_across_blocks(build: str) -> None:
    x = numbers(np.random.default_rng(4), (90, 6, 100), "f32", "sum")
    for axes in ([0, 2], [2, 0], [0, 1, 2], [1, 2], [1]):
        same_bits(reduce("sum", x, axes, build), expected_reduce("sum", x, axes))
    spread = np.broadcast_to(x[:, :1, :], x.shape)
    same_bits(reduce("sum", spread, [0, 1], build), expected_reduce("sum", spread, [0, 1]))


def test_absent_lanes_do_not_turn_negative_zero_into_zero() -> None:
    for n in (1, 3, 64, 70, 4097):
        assert np.signbit(reduce("sum", np.full(n, -0.0, np.float32), [0]))
        assert np.signbit(reduce("max", np.full((n, 40), -0.0), [0])).all()
        assert np.signbit(reduce("sum", np.full((n, 40), -0.0), [0])).all()
    assert not np.signbit(reduce("sum", np.zeros((0, 3), np.float32), [0])).any()
    assert (reduce("prod", np.zeros((3, 0)), [1]) == 1).all()


def test_nan_and_the_order_of_zeros() -> None:
    for n in (2, 64, 100, 5000):
        for place in (0, n // 2, n - 1):
            x = np.full((n, 20), -0.0, np.float32)
            x[place, 3], x[place, 4] = np.nan, 0.0
            for turned, axis in ((x, 0), (np.ascontiguousarray(x.T), 1)):
                largest, least = (reduce(kind, turned, [axis]) for kind in ("max", "min"))
                assert np.isnan(largest[3]) and np.isnan(least[3])
                assert not np.signbit(largest[4]) and np.signbit(least[4]) and np.signbit(largest[5])


def test_integers_and_bools() -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(-(2**63), 2**63 - 1, (7, 130, 9))
    with np.errstate(over="ignore"):
        for axes in ([0], [1], [2], [0, 2], [0, 1, 2]):
            assert (reduce("sum", x, axes) == x.sum(tuple(axes))).all()
            assert (reduce("prod", x, axes) == x.prod(tuple(axes))).all()
            for dtype in (np.int32, np.uint32, np.int64):
                y = (x >> 32).astype(dtype)
                assert (reduce("max", y, axes) == y.max(tuple(axes))).all()
                assert (reduce("min", y, axes) == y.min(tuple(axes))).all()
    for density in (0.0, 0.01, 0.99, 1.0):
        b = rng.random((5, 40, 3)) < density
        for axes in ([0], [1], [2], [0, 2]):
            assert (reduce("any", b, axes) == b.any(tuple(axes))).all()
            assert (reduce("all", b, axes) == b.all(tuple(axes))).all()
    assert not reduce("any", np.zeros((0, 2), bool), [0]).any()
    assert reduce("all", np.zeros((0, 2), bool), [0]).all()


@pytest.mark.parametrize("build", ["gcc", "zig"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "int64"])
def test_argreduce_gives_the_first_place_and_the_first_nan(dtype: str, build: str) -> None:
    rng = np.random.default_rng(6)
    x = rng.integers(0, 6, (40, 30)).astype(dtype)
    cases = [x, x.T, x[:, ::-1], x[:1], x[:, :1]]
    if dtype.startswith("float"):
        with_nan = x.copy()
        with_nan[5, 7] = with_nan[5, 9] = with_nan[6, 0] = np.nan
        cases += [with_nan, np.array([[0.0, -0.0], [-0.0, 0.0]], dtype), np.full((3, 4), -np.inf, dtype)]
    for y in cases:
        for axis in (0, 1):
            assert (reduce("max", y, [axis], build, prefix="argreduce") == y.argmax(axis)).all()
            assert (reduce("min", y, [axis], build, prefix="argreduce") == y.argmin(axis)).all()


def test_argreduce_of_bfloat16_compares_values() -> None:
    values = np.array([[1.0, -3.0, 2.5, 2.5], [np.nan, 9.0, -1.0, 0.0]], np.float32)
    assert reduce("max", rounded(values), [1], prefix="argreduce").tolist() == [2, 0]
    assert reduce("min", rounded(values), [1], prefix="argreduce").tolist() == [1, 0]


@pytest.mark.parametrize("build", EACH_BUILD)
@pytest.mark.parametrize("suffix", FLOATS)
@pytest.mark.parametrize("kind", ["sum", "prod", "max"])
def test_scans_of_every_length_and_axis(kind: str, suffix: str, build: str) -> None:
    rng = np.random.default_rng(7)
    for shape, axis in (((0,), 0), ((1,), 0), ((1023, 2), 0), ((3, 1025), 1), ((2100, 2), 0), ((4, 7, 3), 1)):
        x = numbers(rng, shape, suffix, kind)
        wide = widened(x) if suffix == "bf16" else x
        for reverse in (False, True):
            turned = np.flip(wide, axis) if reverse else wide
            result = np.moveaxis(define_scan(kind, np.moveaxis(turned, axis, 0)), 0, axis)
            result = np.flip(result, axis) if reverse else result
            expected = rounded(result) if suffix == "bf16" else result
            same_bits(scan(kind, x, axis, reverse, build, threads=2), expected)


def test_scans_of_integers_wrap() -> None:
    rng = np.random.default_rng(8)
    x = rng.integers(-(2**63), 2**63 - 1, (3, 1500))
    with np.errstate(over="ignore"):
        assert (scan("sum", x, 1) == np.cumsum(x, 1)).all()
        assert (scan("prod", x, 1) == np.cumprod(x, 1)).all()
    for dtype in (np.int32, np.uint32, np.int64):
        y = (x >> 32).astype(dtype)
        assert (scan("max", y, 1) == np.maximum.accumulate(y, 1)).all()
        assert (scan("max", y, 0, reverse=True) == np.maximum.accumulate(y[::-1], 0)[::-1]).all()
