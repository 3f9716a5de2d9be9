"""dot equals its scalar definition bit for bit, for every shape, layout, batch, compiler and thread count."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_build import EACH_BUILD, loader

# The six-line definition, once for each type.
DEFINITION = r"""
#include <stdint.h>
#define DEFINITION(S, T, FMA)                                                                            \
    void define_##S(int64_t m, int64_t n, int64_t k, const T *a, const T *b, T *out) {                   \
        for (int64_t i = 0; i < m * n; i++) {                                                            \
            T total = 0;                                                                                 \
            for (int64_t panel = 0; panel < k; panel += 384) {                                           \
                T chain = 0;                                                                             \
                for (int64_t j = panel; j < k && j < panel + 384; j++)                                   \
                    chain = FMA(a[i / n * k + j], b[j * n + i % n], chain);                              \
                total = total + chain;                                                                   \
            }                                                                                            \
            out[i] = total;                                                                              \
        }                                                                                                \
    }
DEFINITION(f32, float, __builtin_fmaf)
DEFINITION(f64, double, __builtin_fma)
"""
PROTOTYPES = """
    void define_f32(int64_t, int64_t, int64_t, const float *, const float *, float *);
    void define_f64(int64_t, int64_t, int64_t, const double *, const double *, double *);
    void gm_pool_set(int threads);
    void gm_run(void (*f)(void **, const int64_t *, int64_t), void **bufs, const int64_t *dims, int64_t);
"""
KERNELS = """
void dot_{s}(void **bufs, const int64_t *dims, int64_t chunk) {{ gm_chunk_{s}(bufs, dims, chunk); }}
int64_t chunks_{s}(const int64_t *dims) {{ return gm_{count}_chunk_count((const gm_dot *)dims, {size}); }}
"""
SIZES = {"f32": 4, "f64": 8, "bf16": 2, "i32": 4, "u32": 4, "i64": 8}
EXPORTS = "".join(
    KERNELS.format(s=s, size=size, count="dot" if s in ("f32", "f64") else "row") for s, size in SIZES.items()
)
PROTOTYPES += "".join(
    f"void dot_{s}(void **, const int64_t *, int64_t); int64_t chunks_{s}(const int64_t *);" for s in SIZES
)
load = loader(
    DEFINITION + '#include "gemm.h"\n#include "reduce.h"\n#include "runtime.c"\n' + EXPORTS, PROTOTYPES
)
SUFFIX = {
    "float32": "f32",
    "float64": "f64",
    "uint16": "bf16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
}


def describe(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> list[int]:
    """The gm_dot of two arrays (batch…, M, K) and (batch…, K, N), any strides."""
    size = a.itemsize
    batch = a.shape[:-2]
    fill = [0] * (6 - len(batch))
    a_strides, b_strides = ([s // size for s in x.strides] for x in (a, b))
    return [
        *(a.shape[-2], b.shape[-1], a.shape[-1], *a_strides[-2:], *b_strides[-2:], len(batch)),
        *(*batch, *fill, *a_strides[:-2], *fill, *b_strides[:-2], *fill),
        0,
    ]


def dot(
    a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], build: str = "gcc", threads: int = 1
) -> np.ndarray[Any, Any]:
    ffi, lib = load(build)
    suffix = SUFFIX[a.dtype.name]
    shape = (*a.shape[:-1], b.shape[-1])
    out = np.full(shape, 77, a.dtype)
    dims = ffi.new("int64_t[]", describe(a, b))
    bufs = ffi.new("void *[]", [ffi.cast("void *", x.ctypes.data) for x in (out, a, b)])
    lib.gm_pool_set(threads)
    lib.gm_run(getattr(lib, f"dot_{suffix}"), bufs, dims, getattr(lib, f"chunks_{suffix}")(dims))
    return out


def definition(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    ffi, lib = load("gcc")
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    m, k, n = *a.shape[-2:], b.shape[-1]
    out = np.empty((*a.shape[:-1], n), a.dtype)
    for index in np.ndindex(a.shape[:-2]):
        pointers = [
            ffi.cast(f"{'float' if a.itemsize == 4 else 'double'} *", x[index].ctypes.data)
            for x in (a, b, out)
        ]
        getattr(lib, f"define_{SUFFIX[a.dtype.name]}")(m, n, k, *pointers)
    return out


def same_bits(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> None:
    bits = f"u{x.itemsize}"
    both_nan = np.isnan(x) & np.isnan(y)
    different = (x.view(bits) != y.view(bits)) & ~both_nan
    assert not different.any(), f"{different.sum()} of {x.size} differ, first at {np.argwhere(different)[0]}"


def strided(rng: np.random.Generator, shape: Sequence[int], dtype: str, layout: str) -> np.ndarray[Any, Any]:
    """Random numbers of mixed magnitude in the asked layout of the last two axes."""
    *batch, rows, columns = shape
    if layout == "transposed":
        return strided(rng, (*batch, columns, rows), dtype, "plain").swapaxes(-1, -2)
    if layout == "reversed":
        return strided(rng, shape, dtype, "plain")[..., ::-1, ::-1]
    if layout == "sparse":
        return strided(rng, (*batch, rows, 3 * columns), dtype, "plain")[..., ::3]
    if layout == "repeated":
        return np.broadcast_to(strided(rng, (*batch, rows, 1), dtype, "plain"), shape)
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 12, shape)
    return values.astype(dtype)


LAYOUTS = ("plain", "transposed", "reversed", "sparse", "repeated")
EDGES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 29, 31, 32, 33, 63, 65, 96, 97, 128, 130, 257)


@pytest.mark.parametrize("build", EACH_BUILD)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_compiler_equals_the_definition_over_edge_shapes(build: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    for case in range(150):
        m, n = rng.choice(EDGES, 2)
        k = rng.choice([0, 1, 2, 31, 383, 384, 385, 768, 800])
        layouts = rng.choice(LAYOUTS, 2)
        a, b = strided(rng, (m, k), dtype, layouts[0]), strided(rng, (k, n), dtype, layouts[1])
        same_bits(dot(a, b, build, threads=1 + case % 3), definition(a, b))


@pytest.mark.parametrize("build", EACH_BUILD)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_times_a_matrix_along_whose_memory_k_runs(build: str, dtype: str) -> None:
    rng = np.random.default_rng(2)
    for m in range(1, 10):
        for k, n in ((1, 1), (15, 17), (32, 40), (401, 33), (800, 3)):
            for layout in ("plain", "transposed"):
                a, b = strided(rng, (m, k), dtype, layout), strided(rng, (k, n), dtype, "transposed")
                same_bits(dot(a, b, build), definition(a, b))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    m=st.integers(0, 90),
    n=st.integers(0, 300),
    k=st.integers(0, 900),
    batch=st.lists(st.integers(0, 4), max_size=3),
    layouts=st.tuples(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS)),
    dtype=st.sampled_from(["float32", "float64"]),
    threads=st.sampled_from([1, 2, 3, 7]),
    seed=st.integers(0, 1000),
)
def test_any_product_equals_the_definition(  # noqa: PLR0917
    m: int, n: int, k: int, batch: list[int], layouts: tuple[str, str], dtype: str, threads: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    if m * n * k > 2_000_000:
        batch = []
    a, b = strided(rng, (*batch, m, k), dtype, layouts[0]), strided(rng, (*batch, k, n), dtype, layouts[1])
    same_bits(dot(a, b, threads=threads), definition(a, b))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layouts", [("plain", "plain"), ("transposed", "plain"), ("plain", "transposed")])
def test_products_cut_in_many_chunks_have_the_same_bits_for_any_number_of_threads(
    dtype: str, layouts: tuple[str, str]
) -> None:
    rng = np.random.default_rng(2)
    shapes = [(300, 530, 400), (1024, 65, 128), (3, 2000, 700), (128, 384, 1024), (600, 1, 700)]
    shapes += [(40, 1024, 1024), (200, 1100, 300)]  # rows pages apart; b too big to be read in place
    for m, n, k in shapes:
        a, b = strided(rng, (m, k), dtype, layouts[0]), strided(rng, (k, n), dtype, layouts[1])
        expected = definition(a, b)
        for threads in (1, 2, 3, 7):
            same_bits(dot(a, b, threads=threads), expected)


def test_batches_may_be_views_with_any_strides() -> None:
    rng = np.random.default_rng(3)
    qkv = rng.standard_normal((5, 32, 3, 4, 32)).astype(np.float32)  # batch, time, part, head, feature
    q, k = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in (0, 1))
    same_bits(dot(q, k.swapaxes(-1, -2)), definition(q, k.swapaxes(-1, -2)))
    shared = np.broadcast_to(rng.standard_normal((32, 7)).astype(np.float32), (5, 4, 32, 7))
    same_bits(dot(q, shared, threads=2), definition(q, shared))
    deep = rng.standard_normal((2, 1, 2, 1, 3, 2, 4, 5))
    same_bits(dot(deep, deep.swapaxes(-1, -2)), definition(deep, deep.swapaxes(-1, -2)))


def test_no_terms_give_plus_zero_and_a_negative_zero_chain_becomes_plus_zero() -> None:
    for dtype, tiny in ((np.float32, 1e-30), (np.float64, 1e-300)):
        assert dot(np.zeros((3, 0), dtype), np.zeros((0, 40), dtype)).tobytes() == bytes(
            3 * 40 * dtype().itemsize
        )
        for n in (1, 5, 32, 100):
            underflow = dot(np.full((2, 1), -tiny, dtype), np.full((1, n), tiny, dtype))
            assert underflow.tobytes() == bytes(2 * n * dtype().itemsize)


def test_infinities_and_nans_stay_in_their_rows_and_columns() -> None:
    a, b = np.ones((20, 40), np.float32), np.ones((40, 70), np.float32)
    a[3, 5], b[7, 65], a[15, 1], b[2, 3] = np.inf, np.nan, -np.inf, np.inf
    a[16, 2] = 0.0
    same_bits(dot(a, b), definition(a, b))
    assert np.isnan(dot(a, b)[16, 3])
    assert np.isfinite(dot(a, b)).sum() == 18 * 68


def test_memory_outside_the_operands_is_neither_read_nor_written() -> None:
    rng = np.random.default_rng(4)
    for m, n, k in itertools.product((1, 3, 14, 20), (1, 17, 33, 129), (5, 400)):
        guarded = np.full(m * n + 64, 5, np.float32)
        whole_a, whole_b = np.full(m * k + 64, np.nan, np.float32), np.full(k * n + 64, np.nan, np.float32)
        a, b = whole_a[32:-32].reshape(m, k), whole_b[32:-32].reshape(k, n)
        a[:], b[:] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
        ffi, lib = load("gcc")
        dims = ffi.new("int64_t[]", describe(a, b))
        out = guarded[32:-32].reshape(m, n)
        bufs = ffi.new("void *[]", [ffi.cast("void *", x.ctypes.data) for x in (out, a, b)])
        lib.gm_run(lib.dot_f32, bufs, dims, lib.chunks_f32(dims))
        same_bits(out, definition(a, b))
        assert (guarded[:32] == 5).all() and (guarded[-32:] == 5).all()


@pytest.mark.parametrize("build", ["gcc", "gcc-avx2", "zig"])
def test_bfloat16_is_the_float32_product_rounded_once(build: str) -> None:
    rng = np.random.default_rng(5)
    for m, n, k in ((1, 1, 1), (3, 17, 40), (5, 33, 800), (2, 4, 0)):
        wide = [
            (rng.standard_normal(s).astype(np.float32).view(np.uint32) >> 16 << 16) for s in ((m, k), (k, n))
        ]
        a, b = ((w >> 16).astype(np.uint16) for w in wide)
        exact = definition(*(w.view(np.float32) for w in wide)).view(np.uint32)
        rounded = ((exact + 0x7FFF + (exact >> 16 & 1)) >> 16).astype(np.uint16)
        assert (dot(a, b, build) == rounded).all()
        assert (dot(a, np.asfortranarray(b), build) == rounded).all()


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_integer_products_wrap(dtype: str) -> None:
    rng = np.random.default_rng(6)
    limits = np.iinfo(dtype)
    a = rng.integers(limits.min, limits.max, (2, 7, 11), dtype)
    b = rng.integers(limits.min, limits.max, (2, 11, 19), dtype)
    with np.errstate(over="ignore"):
        expected = (a[..., :, :, None] * b[..., None, :, :]).sum(-2, dtype=dtype)
    assert (dot(a, b) == expected).all()
    assert (dot(a[:, :, :0], b[:, :0]) == 0).all()
