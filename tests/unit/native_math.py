"""The elementary functions of kmath.h as functions over NumPy arrays, built by any compiler at hand."""

from __future__ import annotations

import functools
import platform
from typing import Any

import cffi
import numpy as np
import pytest
from native_build import BUILDS, build_library, missing

Array = np.ndarray[Any, np.dtype[Any]]

UNARY = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf")
BINARY = ("pow", "atan2", "mod", "floordiv")
INTEGER = ("floordiv", "mod", "shl", "shr")
LANES = {
    "f32": ("float", "LF", np.float32),
    "f64": ("double", "LD", np.float64),
    "i32": ("int32_t", "LF", np.int32),
    "i64": ("int64_t", "LD", np.int64),
    "u32": ("uint32_t", "LF", np.uint32),
}
FUNCTIONS = [
    *((name, lane, 1) for name in UNARY for lane in ("f32", "f64")),
    *((name, lane, 2) for name in BINARY for lane in ("f32", "f64")),
    *((name, lane, 2) for name in INTEGER for lane in ("i32", "i64", "u32")),
]

# A build is a compiler of native_build and further flags; vectors are 64, 32 or 16 bytes wide.
NARROW = ("-mno-avx512f", "-mno-avx2")
X86 = platform.machine() in ("x86_64", "AMD64")
VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{name: (name, ()) for name in BUILDS},
    **({"gcc-sse": ("gcc", NARROW), "zig-avx2": ("zig", NARROW[:1])} if X86 else {}),
}


def loop(name: str, lane: str, arity: int) -> str:
    """A C function over arrays, the last partial vector included."""
    scalar, lanes, _ = LANES[lane]
    whole = ", ".join(f"ld_{lane}({p} + i)" for p in "ab"[:arity])
    tail = ", ".join(f"ldn_{lane}({p} + i, n - i)" for p in "ab"[:arity])
    return f"""
void {name}_{lane}(const {scalar} *a, const {scalar} *b, {scalar} *out, int64_t n) {{
    int64_t i = 0;
    (void)b;
    for (; i + {lanes} <= n; i += {lanes}) st_{lane}(out + i, k_{name}_{lane}({whole}));
    if (i < n) stn_{lane}(out + i, k_{name}_{lane}({tail}), n - i);
}}"""


TEXT = '#include "kmath.h"\n' + "\n".join(loop(*function) for function in FUNCTIONS)
DECLARATIONS = "\n".join(
    f"void {name}_{lane}(void *a, void *b, void *out, int64_t n);" for name, lane, _ in FUNCTIONS
)


@functools.cache
def library(variant: str) -> tuple[cffi.FFI, Any]:
    """The functions built by one variant; skips the test where its compiler is missing."""
    build, extra = VARIANTS[variant]
    ffi = cffi.FFI()
    ffi.cdef(DECLARATIONS)
    return ffi, ffi.dlopen(str(build_library(TEXT, build, *extra)))


def available() -> list[str]:
    """The variants that can be built here."""
    return [name for name, (build, _) in VARIANTS.items() if missing(build) is None]


def default_variant() -> str:
    """The first variant that can be built here; skips the test where there is none."""
    found = available()
    if not found:
        pytest.skip("no C compiler is installed")
    return found[0]


def apply(name: str, *operands: Array, variant: str | None = None) -> Array:
    """k_<name>_<lane> of one or two arrays of equal shape and dtype."""
    first = np.ascontiguousarray(operands[0])
    second = np.ascontiguousarray(operands[-1])
    lane = next(lane for lane, (_, _, dtype) in LANES.items() if dtype == first.dtype)
    ffi, functions = library(variant or default_variant())
    out = np.empty_like(first)
    buffers = [ffi.from_buffer(a, require_writable=False) for a in (first, second)]
    getattr(functions, f"{name}_{lane}")(*buffers, ffi.from_buffer(out), first.size)
    return out


def bits(values: Array) -> Array:
    """The bits of an array, with every NaN the same."""
    if values.dtype.kind != "f":
        return values
    canonical = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    return canonical.view(f"u{values.itemsize}")


def every_exponent(dtype: Any, each: int, seed: int = 0) -> Array:
    """Random floats, `each` for every sign and exponent: zeros, denormals, infinities and NaN among them."""
    fraction, exponents = (23, 256) if dtype == np.float32 else (52, 2048)
    unsigned = np.uint32 if dtype == np.float32 else np.uint64
    heads = np.repeat(np.arange(2 * exponents, dtype=unsigned), each) << unsigned(fraction)
    tails = np.random.default_rng(seed).integers(0, 2**fraction, heads.size, dtype=unsigned)
    tails[::each] = 0
    tails[each - 1 :: each] = 2**fraction - 1
    return (heads | tails).view(dtype)
