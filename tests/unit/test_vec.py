"""The vector layer: every function of vec.h against NumPy or plain Python, for every compiler and width."""

from __future__ import annotations

import functools
import math
from typing import Any

import cffi
import numpy as np
import pytest
from native_build import build_library
from native_math import VARIANTS, Array, bits, every_exponent

INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1.0, -1.5, 2.5, INF, -INF, NAN, 1e-40, -1e-40]

# name: (scalar in, lanes, load, scalar out, store, expression of a, b, c)
MAPS = {
    **{
        f"{op}_{lane}": (scalar, lanes, f"ld_{lane}", scalar, f"st_{lane}", f"{op}_{lane}({args})")
        for lane, scalar, lanes in (("f32", "float", "LF"), ("f64", "double", "LD"))
        for op, args in (
            *((op, "a") for op in ("floor", "trunc", "rint", "sqrt", "abs", "neg")),
            *((op, "a, b") for op in ("max", "min", "less", "more", "copysign")),
            ("fma", "a, b, c"),
        )
    },
    **{
        f"{op}_{lane}": (f"{kind}_t", lanes, f"ld_{lane}", f"{kind}_t", f"st_{lane}", f"{op}_{lane}(a, b)")
        for lane, kind, lanes in (
            *(
                ("i32", "int32", "LF"),
                ("u32", "uint32", "LF"),
                ("i64", "int64", "LD"),
                ("u64", "uint64", "LD"),
            ),
        )
        for op in ("max", "min")
    },
    "cvt_f32_i32": ("float", "LF", "ld_f32", "int32_t", "st_i32", "cvt_f32_i32(a)"),
    "cvt_f32_u32": ("float", "LF", "ld_f32", "uint32_t", "st_u32", "cvt_f32_u32(a)"),
    "cvt_f64_i64": ("double", "LD", "ld_f64", "int64_t", "st_i64", "cvt_f64_i64(a)"),
    "cvt_f64_i32": ("double", "LD", "ld_f64", "int32_t", "sth_i32", "cvt_f64_i32(a)"),
    "cvt_f64_u32": ("double", "LD", "ld_f64", "uint32_t", "sth_u32", "cvt_f64_u32(a)"),
    "cvt_f32_i64": ("float", "LD", "ldh_f32", "int64_t", "st_i64", "cvt_f32_i64(a)"),
    "cvt_f64_f32": ("double", "LD", "ld_f64", "float", "sth_f32", "cvt_f64_f32(a)"),
    "cvt_f32_f64": ("float", "LD", "ldh_f32", "double", "st_f64", "cvt_f32_f64(a)"),
    "cvt_i64_f64": ("int64_t", "LD", "ld_i64", "double", "st_f64", "cvt_i64_f64(a)"),
    "cvt_i64_f32": ("int64_t", "LD", "ld_i64", "float", "sth_f32", "cvt_i64_f32(a)"),
    "cvt_i32_f32": ("int32_t", "LF", "ld_i32", "float", "st_f32", "cvt_i32_f32(a)"),
    "cvt_u32_f32": ("uint32_t", "LF", "ld_u32", "float", "st_f32", "cvt_u32_f32(a)"),
    "cvt_i64_i32": ("int64_t", "LD", "ld_i64", "int32_t", "sth_i32", "cvt_i64_i32(a)"),
    "cvt_i32_i64": ("int32_t", "LD", "ldh_i32", "int64_t", "st_i64", "cvt_i32_i64(a)"),
    "cvt_u32_i64": ("uint32_t", "LD", "ldh_u32", "int64_t", "st_i64", "cvt_u32_i64(a)"),
    "round_trip_halves": (
        *("float", "LF", "ld_f32", "float", "st_f32"),
        "narrow_f64(wide_low_f32(a), wide_high_f32(a))",
    ),
    "to_bf16": ("float", "LF", "ld_f32", "uint16_t", "st_bf16", "a"),
    "from_bf16": ("uint16_t", "LF", "ld_bf16", "float", "st_f32", "a"),
    "round_bf16": ("float", "LF", "ld_f32", "float", "st_f32", "round_bf16(a)"),
    "mulwide_u32": ("uint64_t", "LD", "ld_u64", "uint64_t", "st_u64", "mulwide_u32(a, b)"),
    "positive_m32": ("float", "LF", "ld_f32", "uint8_t", "st_m32", "a > 0.0f"),
    "positive_m64": ("double", "LD", "ld_f64", "uint8_t", "st_m64", "(vi64)(a > 0.0)"),
    "choose_m32": ("uint8_t", "LF", "ld_m32", "int32_t", "st_i32", "sel_i32(a, b, c)"),
    "choose_m64": ("uint8_t", "LD", "ld_m64", "int64_t", "st_i64", "sel_i64(a, b, c)"),
    "scale_f32": ("float", "LF", "ld_f32", "float", "st_f32", "scale_f32(a, b)"),
    "scale_f64": ("double", "LD", "ld_f64", "double", "st_f64", "scale_f64(a, b)"),
    "any_i32": ("int32_t", "LF", "ld_i32", "int32_t", "st_i32", "set1_i32(any_i32(a < 0))"),
}
SCALARS = {
    "float": np.float32,
    "double": np.float64,
    **{f"{n}_t": getattr(np, n) for n in ("int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}
VECTOR = {
    "ld_f32": "vf32",
    "ld_f64": "vf64",
    "ldh_f32": "hf32",
    "ldh_i32": "hi32",
    "ldh_u32": "hu32",
    "ld_bf16": "vf32",
    "ld_m32": "vi32",
    "ld_m64": "vi64",
    **{f"ld_{lane}": f"v{lane}" for lane in ("i32", "i64", "u32", "u64")},
}

MEMORY = {
    "f32": ("float", "vf32", "LF"),
    "f64": ("double", "vf64", "LD"),
    "i64": ("int64_t", "vi64", "LD"),
    "u32": ("uint32_t", "vu32", "LF"),
    "bf16": ("uint16_t", "vf32", "LF"),
    "m32": ("uint8_t", "vi32", "LF"),
    "m64": ("uint8_t", "vi64", "LD"),
}


def _map(name: str) -> str:
    scalar, lanes, load, result, store, expression = MAPS[name]
    v = VECTOR[load]
    return f"""
void map_{name}(const {scalar} *p, const {scalar} *q, const {scalar} *r, {result} *out, int64_t n) {{
    for (int64_t i = 0; i + {lanes} <= n; i += {lanes}) {{
        {v} a = {load}(p + i), b = {load}(q + i), c = {load}(r + i);
        (void)b, (void)c;
        {store}(out + i, {expression});
    }}
}}"""


def _memory(lane: str) -> str:
    scalar, _, _ = MEMORY[lane]
    return f"""
void part_{lane}(const {scalar} *p, {scalar} *out, int64_t n) {{ stn_{lane}(out, ldn_{lane}(p, n), n); }}
void strided_{lane}(const {scalar} *p, int64_t s, {scalar} *out, int64_t t, int64_t n) {{
    stsn_{lane}(out, t, ldsn_{lane}(p, s, n), n);
}}"""


TEXT = '#include "vec.h"\nint64_t lanes_f32(void) { return LF; }\n' + "".join(
    [*map(_map, MAPS), *map(_memory, MEMORY)]
)


@functools.cache
def library(variant: str) -> tuple[cffi.FFI, Any]:
    build, extra = VARIANTS[variant]
    ffi = cffi.FFI()
    ffi.cdef("int64_t lanes_f32(void);")
    for name in MAPS:
        ffi.cdef(f"void map_{name}(void *p, void *q, void *r, void *out, int64_t n);")
    for lane in MEMORY:
        ffi.cdef(f"void part_{lane}(void *p, void *out, int64_t n);")
        ffi.cdef(f"void strided_{lane}(void *p, int64_t s, void *out, int64_t t, int64_t n);")
    return ffi, ffi.dlopen(str(build_library(TEXT, build, *extra)))


@pytest.fixture(params=list(VARIANTS))
def variant(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    library(name)  # skips where the compiler is missing
    return name


def apply(variant: str, name: str, *operands: Any) -> Array:
    """A row of MAPS over arrays of any one length, filled up to whole vectors."""
    ffi, functions = library(variant)
    scalar, _, _, result, _, _ = MAPS[name]
    arrays = [np.asarray(a, SCALARS[scalar]) for a in operands]
    count = arrays[0].size
    padded = [np.concatenate([a, np.zeros(-count % 64, a.dtype)]) for a in arrays]
    padded += [padded[-1]] * (3 - len(padded))
    out = np.empty(padded[0].size, SCALARS[result])
    getattr(functions, f"map_{name}")(*(ffi.from_buffer(a) for a in padded), ffi.from_buffer(out), out.size)
    return out[:count]


def same(got: Array, expected: Any) -> None:
    np.testing.assert_array_equal(bits(got), bits(np.asarray(expected, got.dtype)))


@pytest.mark.parametrize("lane", ["f32", "f64"])
def test_rounding_and_sign_functions_have_numpys_bits(variant: str, lane: str) -> None:
    dtype = np.float32 if lane == "f32" else np.float64
    x = np.concatenate([every_exponent(dtype, 4), np.array([*SPECIAL, 0.5, 1.5, 2.5, -0.5, -2.5], dtype)])
    y = np.random.default_rng(0).permutation(x)
    with np.errstate(all="ignore"):
        for name in ("floor", "trunc", "rint", "sqrt", "abs"):
            same(apply(variant, f"{name}_{lane}", x), getattr(np, name)(x))
        same(apply(variant, f"neg_{lane}", x), -x)
        same(apply(variant, f"copysign_{lane}", x, y), np.copysign(x, y))


@pytest.mark.parametrize("lane", ["f32", "f64"])
def test_maximum_and_minimum_propagate_nan_and_order_zeros(variant: str, lane: str) -> None:
    a, b = np.array([(x, y) for x in SPECIAL for y in SPECIAL]).T
    if lane == "f32":
        a, b = a.astype(np.float32), b.astype(np.float32)

    def pick(x: float, y: float, sign: int) -> float:
        if math.isnan(x) or math.isnan(y):
            return NAN
        return max(x, y, key=lambda v: (sign * v, sign * math.copysign(1, v)))

    for name, sign in (("max", 1), ("min", -1)):
        expected = [pick(x, y, sign) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        same(apply(variant, f"{name}_{lane}", a, b), expected)
    same(apply(variant, f"less_{lane}", a, b), np.where(a < b, a, b))
    same(apply(variant, f"more_{lane}", a, b), np.where(a > b, a, b))


@pytest.mark.parametrize("lane", ["i32", "u32", "i64", "u64"])
def test_integer_maximum_and_minimum(variant: str, lane: str) -> None:
    dtype = SCALARS[MAPS[f"max_{lane}"][0]]
    info = np.iinfo(dtype)
    a = np.random.default_rng(1).integers(info.min, info.max, 200, dtype=dtype, endpoint=True)
    b = np.concatenate([a[100:], a[:50], a[50:100] * 0 + dtype(info.max)])
    same(apply(variant, f"max_{lane}", a, b), np.maximum(a, b))
    same(apply(variant, f"min_{lane}", a, b), np.minimum(a, b))


def test_fma_rounds_once(variant: str) -> None:
    x = 1 + 2.0**-12
    assert apply(variant, "fma_f32", [x], [x], [-1 - 2.0**-11]).tolist() == [2.0**-24]
    x = 1 + 2.0**-30
    assert apply(variant, "fma_f64", [x], [x], [-1 - 2.0**-29]).tolist() == [2.0**-60]


def test_float_to_integer_truncates_saturates_and_sends_nan_to_zero(variant: str) -> None:
    x = [1.9, -1.9, 0.0, -0.0, NAN, INF, -INF, 3e9, -3e9, 1e30, 2147483520.0, -2147483648.0, 5e9]
    for name, low, high in (
        ("cvt_f32_i32", -(2**31), 2**31 - 1),
        ("cvt_f32_u32", 0, 2**32 - 1),
        ("cvt_f64_i32", -(2**31), 2**31 - 1),
        ("cvt_f64_u32", 0, 2**32 - 1),
        ("cvt_f64_i64", -(2**63), 2**63 - 1),
        ("cvt_f32_i64", -(2**63), 2**63 - 1),
    ):
        values = np.asarray(x, SCALARS[MAPS[name][0]]).tolist()
        expected = [0 if math.isnan(v) else low if v < low else high if v > high else int(v) for v in values]
        assert apply(variant, name, x).tolist() == expected, name
    assert apply(variant, "cvt_f64_i32", [2147483647.5, -2147483648.5]).tolist() == [2**31 - 1, -(2**31)]
    assert apply(variant, "cvt_f64_i64", [2.0**63, -(2.0**63), 2.0**62]).tolist() == [
        *(2**63 - 1, -(2**63), 2**62)
    ]


def test_conversions_between_widths_round_to_nearest_even(variant: str) -> None:
    rng = np.random.default_rng(2)
    whole = rng.integers(-(2**63), 2**63 - 1, 500)
    whole[::3] >>= 35
    same(apply(variant, "cvt_i64_f64", whole), whole.astype(np.float64))
    same(apply(variant, "cvt_i64_f32", whole), whole.astype(np.float32))
    same(apply(variant, "cvt_i64_i32", whole), whole.astype(np.int32))
    small = whole.astype(np.int32)
    same(apply(variant, "cvt_i32_f32", small), small.astype(np.float32))
    same(apply(variant, "cvt_i32_i64", small), small.astype(np.int64))
    unsigned = small.view(np.uint32)
    same(apply(variant, "cvt_u32_f32", unsigned), unsigned.astype(np.float32))
    same(apply(variant, "cvt_u32_i64", unsigned), unsigned.astype(np.int64))
    wide, narrow = every_exponent(np.float64, 2), every_exponent(np.float32, 3)
    with np.errstate(all="ignore"):
        same(apply(variant, "cvt_f64_f32", wide), wide.astype(np.float32))
        same(apply(variant, "cvt_f32_f64", narrow), narrow.astype(np.float64))
    same(apply(variant, "round_trip_halves", narrow), narrow)


def test_bfloat16_rounds_to_nearest_even_and_has_one_nan(variant: str) -> None:
    x = [1.00390625, 1.01171875, 3.3895e38, 3.4e38, NAN, -NAN, INF, -INF, 0.0, -0.0, 1e-40]
    expected = [1.0, 1.015625, 1.9921875 * 2.0**127, INF, NAN, NAN, INF, -INF, 0.0, -0.0, 2.0**-133]
    same(apply(variant, "round_bf16", x), expected)
    stored = apply(variant, "to_bf16", x)
    assert stored[4] == stored[5] == 0x7FC0
    patterns = np.arange(2**16, dtype=np.uint16)
    values = apply(variant, "from_bf16", patterns)
    same(values, (patterns.astype(np.uint32) << 16).view(np.float32))
    back = apply(variant, "to_bf16", values)
    np.testing.assert_array_equal(back[~np.isnan(values)], patterns[~np.isnan(values)])
    assert (back[np.isnan(values)] == 0x7FC0).all()


def test_masks_in_memory_are_bytes_of_zero_and_one(variant: str) -> None:
    x = np.random.default_rng(3).normal(size=300)
    for lane in ("m32", "m64"):
        assert apply(variant, f"positive_{lane}", x).tolist() == (x > 0).astype(int).tolist()
    flags = (x > 0).astype(np.uint8)
    for lane in ("m32", "m64"):
        chosen = apply(variant, f"choose_{lane}", flags, np.ones(300), np.zeros(300))
        assert chosen.tolist() == [-1 if flag else 0 for flag in flags]


def test_widening_multiply_uses_the_low_halves(variant: str) -> None:
    a = np.random.default_rng(4).integers(0, 2**64, 100, dtype=np.uint64)
    b = a[::-1].copy()
    expected = [(int(x) % 2**32) * (int(y) % 2**32) for x, y in zip(a, b, strict=True)]
    assert apply(variant, "mulwide_u32", a, b).tolist() == expected


@pytest.mark.parametrize("lane", ["f32", "f64"])
def test_scale_rounds_once_even_into_the_denormals(variant: str, lane: str) -> None:
    dtype, limit = (np.float32, 250) if lane == "f32" else (np.float64, 2000)
    rng = np.random.default_rng(5)
    x = rng.uniform(0.5, 2, 2000).astype(dtype)
    n = rng.integers(-limit, limit, 2000)
    with np.errstate(all="ignore"):
        same(apply(variant, f"scale_{lane}", x, n), np.ldexp(x, n))
    assert np.isnan(apply(variant, f"scale_{lane}", [NAN], [NAN])).all()


def test_any_sees_a_single_lane(variant: str) -> None:
    lanes = library(variant)[1].lanes_f32()
    for hot in (None, *range(lanes)):
        x = [-1 if lane == hot else 1 for lane in range(64)]
        seen = apply(variant, "any_i32", x, [0] * 64)[:lanes]
        assert seen.tolist() == [int(hot is not None)] * lanes


@pytest.mark.parametrize("lane", list(MEMORY))
def test_partial_and_strided_access_touch_only_their_elements(variant: str, lane: str) -> None:
    ffi, functions = library(variant)
    scalar, _, count = MEMORY[lane]
    lanes = functions.lanes_f32() // (1 if count == "LF" else 2)
    high = 2 if lane.startswith("m") else 100
    source = np.arange(400).astype(SCALARS[scalar]) % SCALARS[scalar](high)
    for n in range(lanes + 1):
        out = np.full(600, 77, SCALARS[scalar])
        at = ffi.from_buffer(out[3:])
        getattr(functions, f"part_{lane}")(ffi.from_buffer(source[1:]), at, n)
        assert out.tolist() == [77] * 3 + source[1 : n + 1].tolist() + [77] * (597 - n)
        for read, write in ((3, 1), (0, 2), (1, 5), (-2, 3)):
            out[:] = 77
            getattr(functions, f"strided_{lane}")(ffi.from_buffer(source[200:]), read, at, write, n)
            expected = np.full(600, 77, SCALARS[scalar])
            for i in range(n):
                expected[3 + i * write] = source[200 + i * read]
            np.testing.assert_array_equal(out, expected)
