"""The error of the elementary functions over a large part of all floats (slow)."""

from __future__ import annotations

import functools
import platform
import sys
from typing import Any

import cffi
import numpy as np
import pytest
from native_build import build_library
from native_math import UNARY, default_variant, library

STEP = 17  # prime, so that every residue of the low bits occurs
BATCH = 1 << 16

# The C library's functions of the next wider type are the oracle; it is the one place where libm is called.
ORACLE = """
#include <math.h>
#include <stdint.h>
#include <string.h>

/* The largest error in ulp of got[i] against f(x[i]), and where it is. p: digits, e: least exponent. */
#define WORST(NAME, T, W, P, E, MOST, FREXP, LDEXP)                                                     \\
    double NAME(W (*f)(W), const T *x, const T *got, int64_t n, int64_t *at) {                          \\
        double worst = 0;                                                                               \\
        *at = 0;                                                                                        \\
        for (int64_t i = 0; i < n; i++) {                                                               \\
            W exact = f((W)x[i]), size = exact < 0 ? -exact : exact;                                    \\
            double error;                                                                               \\
            int e;                                                                                      \\
            if (isnan(exact) || isnan(got[i])) {                                                        \\
                error = isnan(exact) && isnan(got[i]) ? 0 : INFINITY;                                   \\
            } else if (isinf(got[i])) {                                                                 \\
                error = size > MOST && (got[i] > 0) == (exact > 0) ? 0 : INFINITY;                      \\
            } else {                                                                                    \\
                FREXP(exact, &e);                                                                       \\
                e = exact == 0 || e - 1 < E ? E : e - 1;                                                \\
                error = (double)LDEXP((W)got[i] - exact, P - 1 - e);                                    \\
                error = error < 0 ? -error : error;                                                     \\
                if (exact == 0 && signbit(exact) != signbit(got[i])) error = INFINITY;                  \\
            }                                                                                           \\
            if (error > worst) worst = error, *at = i;                                                  \\
        }                                                                                               \\
        return worst;                                                                                   \\
    }
WORST(worst_f32, float, double, 24, -126, 0x1.fffffep127, frexp, ldexp)
WORST(worst_f64, double, long double, 53, -1022, 0x1.fffffffffffffp1023L, frexpl, ldexpl)
""" + "\n".join(
    f"double sweep_{name}_f32(const float *x, const float *y, int64_t n, int64_t *at)"
    f" {{ return worst_f32({name}, x, y, n, at); }}\n"
    f"double sweep_{name}_f64(const double *x, const double *y, int64_t n, int64_t *at)"
    f" {{ return worst_f64({name}l, x, y, n, at); }}"
    for name in UNARY
)


@functools.cache
def oracle() -> tuple[cffi.FFI, Any]:
    ffi = cffi.FFI()
    for name in UNARY:
        for lane in ("f32", "f64"):
            ffi.cdef(f"double sweep_{name}_{lane}(void *x, void *y, int64_t n, int64_t *at);")
    return ffi, ffi.dlopen(str(build_library(ORACLE, "gcc", "-O2", "-lm")))


def sweep(name: str, lane: str, batches: Any, limit: float) -> None:
    ffi, functions = library(default_variant())
    oracle_ffi, exact = oracle()
    for x in batches:
        y, at = np.empty_like(x), oracle_ffi.new("int64_t *")
        getattr(functions, f"{name}_{lane}")(
            *(ffi.from_buffer(a, require_writable=False) for a in (x, x)), ffi.from_buffer(y), x.size
        )
        error = getattr(exact, f"sweep_{name}_{lane}")(
            oracle_ffi.from_buffer(x), oracle_ffi.from_buffer(y), x.size, at
        )
        assert error <= limit, f"{name}({x[at[0]]!r}) = {y[at[0]]!r}: {error:.3f} ulp"


@pytest.mark.slow
@pytest.mark.timeout(1200)  # a minute on an idle core
@pytest.mark.parametrize("name", UNARY)
def test_every_seventeenth_float32_is_within_one_and_a_half_ulp(name: str) -> None:
    starts = range(0, 2**32, STEP * BATCH)
    batches = (
        np.arange(start, min(2**32, start + STEP * BATCH), STEP, dtype=np.uint64)
        .astype(np.uint32)
        .view(np.float32)
        for start in starts
    )
    sweep(name, "f32", batches, 1.5)


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or sys.platform != "linux",
    reason="needs a long double with more digits than a double, computed by hardware",
)
@pytest.mark.parametrize("name", UNARY)
def test_millions_of_float64_are_within_two_ulp(name: str) -> None:
    rng = np.random.default_rng(20)
    anything = (rng.integers(0, 2**64, BATCH, dtype=np.uint64).view(np.float64) for _ in range(16))
    usual = (rng.uniform(-scale, scale, BATCH) for scale in (0.1, 1.2, 3.0, 40.0, 750.0) for _ in range(16))
    sweep(name, "f64", anything, 2.0)
    sweep(name, "f64", usual, 2.0)
