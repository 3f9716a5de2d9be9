"""The elementary functions: error in ulp, special values, and the same bits from every compiler and width."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from native_math import (
    BINARY,
    FUNCTIONS,
    INTEGER,
    LANES,
    UNARY,
    VARIANTS,
    Array,
    apply,
    available,
    bits,
    every_exponent,
)

from engine.native import precise

INF, NAN = math.inf, math.nan
LIMIT = {np.float32: 1.5, np.float64: 2.0}
SPECIAL = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, -2.5, 1e30, -1e30, 1e-30, -1e-30),
    *(2.0**24, 2.0**24 + 2, -(2.0**23) - 1, INF, -INF, NAN),
)
# Where the error is largest: around the seams between formulas.
SEAMS = {
    "exp": [(-1, 1), (-104, 89)],
    "expm1": [(-1, 2), (-20, 89)],
    "log": [(0.5, 2), (0, 10)],
    "log1p": [(-0.9, 2), (-0.1, 0.1)],
    "sin": [(-4, 4), (-140000, 140000)],
    "cos": [(-4, 4), (-140000, 140000)],
    "tanh": [(-1, 1), (-10, 10)],
    "erf": [(-1.2, 1.2), (-6, 6)],
}
WIDE: dict[str, Any] = {
    **{name: getattr(np, name) for name in UNARY if name != "erf"},
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "pow": np.power,
    "atan2": np.arctan2,
}


def ulp_error(got: Array, exact: Array) -> Array:
    """|got - exact| in units of the last place of `exact` in got's format; 0 where both are NaN, or agree."""
    dtype = got.dtype.type
    fraction, least, most = (23, -126, 127) if dtype == np.float32 else (52, -1022, 1023)
    with np.errstate(all="ignore"):
        exponent = np.clip(np.frexp(np.abs(exact))[1] - 1, least, most)
        error = np.ldexp(np.abs(got.astype(np.float64) - exact), fraction - exponent)
        beyond = np.abs(exact) >= np.ldexp(2 - 2.0 ** -(fraction + 1), most)
    error[np.isinf(got) & beyond & (np.sign(got) == np.sign(exact))] = 0
    error[np.isnan(got) & np.isnan(exact)] = 0
    error[np.isnan(got) != np.isnan(exact)] = INF
    error[(got == exact) & (np.signbit(got) == np.signbit(exact))] = 0
    return error


def exact_f64(name: str, x: float) -> Decimal:
    """The function of one finite float to sixty digits."""
    function = getattr(precise, name)
    return Decimal(function(Decimal(x)))


def ulp_error_f64(got: float, exact: Decimal) -> float:
    """The same for one float64 against a decimal."""
    nearest = float(exact)
    if math.isinf(nearest) or nearest == 0:
        return 0.0 if got == nearest else INF
    return float(abs(Decimal(got) - exact) / Decimal(math.ulp(nearest)))


def check(name: str, x: Array) -> None:
    """Fails with the argument of the largest error when that is over the limit."""
    got = apply(name, x)
    with np.errstate(all="ignore"):
        errors = ulp_error(got, WIDE[name](x.astype(np.float64)))
    i = int(np.argmax(errors))
    assert errors[i] <= LIMIT[x.dtype.type], f"{name}({x[i]!r}) = {got[i]!r}: {errors[i]:.3f} ulp"


@pytest.mark.parametrize("name", UNARY)
def test_float32_functions_stay_within_one_and_a_half_ulp_at_every_exponent(name: str) -> None:
    check(name, every_exponent(np.float32, 200))
    for low, high in SEAMS[name]:
        check(name, np.random.default_rng(1).uniform(low, high, 60_000).astype(np.float32))


@pytest.mark.parametrize("name", UNARY)
def test_float64_functions_stay_within_two_ulp_of_sixty_digits(name: str) -> None:
    rng = np.random.default_rng(2)
    seams = [rng.uniform(low, high, 150) for low, high in SEAMS[name]]
    x = np.concatenate([*seams, every_exponent(np.float64, 2)[:: 16 if name in ("sin", "cos") else 8]])
    limit = {"exp": 720, "expm1": 720, "erf": 6, "tanh": 100}.get(name, INF)
    lowest = {"log": 0.0, "log1p": -1.0}.get(name, -limit)
    x = x[np.isfinite(x) & (x > lowest) & (x < limit) & (x != 0)]
    got = apply(name, x)
    errors = [ulp_error_f64(float(v), exact_f64(name, float(a))) for a, v in zip(x, got, strict=True)]
    i = int(np.argmax(errors))
    assert errors[i] <= 2, f"{name}({x[i].hex()}) = {got[i].hex()}: {errors[i]:.3f} ulp"


@pytest.mark.parametrize("lane", ["f32", "f64"])
@pytest.mark.parametrize("name", UNARY)
def test_special_values_of_one_operand_are_those_of_the_mathematical_function(name: str, lane: str) -> None:
    dtype = LANES[lane][2]
    x = np.array([*SPECIAL, np.finfo(dtype).smallest_subnormal, -np.finfo(dtype).smallest_subnormal], dtype)
    with np.errstate(all="ignore"):
        exact = WIDE[name](x.astype(np.float64))
    got = apply(name, x)
    assert (ulp_error(got, exact) <= LIMIT[dtype]).all(), dict(
        zip(x, zip(got, exact, strict=True), strict=True)
    )
    assert (np.signbit(got) == np.signbit(exact))[~np.isnan(exact)].all()


def test_values_at_the_ends_of_the_range_do_not_flush_to_zero() -> None:
    tiny = np.array([1e-40, -1e-45, 3e-39], np.float32)
    for name in ("expm1", "log1p", "sin", "tanh"):
        np.testing.assert_array_equal(apply(name, tiny), tiny)
    assert apply("exp", np.array([-100, -103.9], np.float32)).tolist() == pytest.approx(
        [np.float32(math.exp(-100)), np.float32(2.0**-149)], rel=1e-6
    )
    assert apply("exp", np.array([-745.0])).tolist() == [5e-324]
    assert apply("log", np.array([1e-45], np.float32))[0] == np.float32(math.log(2.0**-149))
    assert apply("pow", np.array([2.0]), np.array([-1074.0])).tolist() == [5e-324]


@pytest.mark.parametrize("x", [6381956970095103.0 * 2.0**797, 2.0**1023, 16367173.0 * 2.0**72, 131073.0])
def test_sine_and_cosine_of_large_arguments_use_all_the_digits_of_pi(x: float) -> None:
    for name, dtype in itertools.product(("sin", "cos"), (np.float32, np.float64)):
        if x > float(np.finfo(dtype).max):
            continue
        got = apply(name, np.array([x, -x, 0.5], dtype))
        exact = exact_f64(name, x)
        sign = -1 if name == "sin" else 1
        if dtype == np.float64:
            assert ulp_error_f64(float(got[0]), exact) <= 2
        else:
            assert float(got[0]) == pytest.approx(float(exact), rel=1.5 * 2.0**-23)
        assert got[1] == sign * got[0]
        assert got[2] == pytest.approx(getattr(math, name)(0.5), rel=1e-6)


@pytest.mark.parametrize("lane", ["f32", "f64"])
@pytest.mark.parametrize("name", BINARY)
def test_special_values_of_two_operands_are_those_of_numpy(name: str, lane: str) -> None:
    dtype = LANES[lane][2]
    grid = np.array(list(itertools.product(SPECIAL, SPECIAL)), dtype)
    x, y = np.ascontiguousarray(grid[:, 0]), np.ascontiguousarray(grid[:, 1])
    with np.errstate(all="ignore"):
        if name in WIDE:
            exact = WIDE[name](x.astype(np.float64), y.astype(np.float64))
        else:
            exact = {"mod": np.mod, "floordiv": np.floor_divide}[name](x, y).astype(np.float64)
    got = apply(name, x, y)
    wrong = np.flatnonzero(ulp_error(got, exact) > LIMIT[dtype])
    assert not wrong.size, [(x[i], y[i], got[i], exact[i]) for i in wrong[:5]]
    signs = (np.signbit(got) == np.signbit(exact)) | np.isnan(exact)
    assert signs.all(), [(x[i], y[i], got[i], exact[i]) for i in np.flatnonzero(~signs)[:5]]


@pytest.mark.parametrize("name", ["mod", "floordiv"])
@pytest.mark.parametrize("lane", ["f32", "f64"])
def test_float_modulo_and_floor_division_have_numpys_bits(name: str, lane: str) -> None:
    x = every_exponent(LANES[lane][2], 40 if lane == "f32" else 5)
    y = np.random.default_rng(3).permutation(x)
    small = np.random.default_rng(4).uniform(-9, 9, (2, 20_000)).astype(x.dtype)
    for a, b in ((x, y), small):
        with np.errstate(all="ignore"):
            expected = {"mod": np.mod, "floordiv": np.floor_divide}[name](a, b)
        np.testing.assert_array_equal(bits(apply(name, a, b)), bits(expected))


def test_modulo_with_infinity_keeps_the_finite_operand_or_becomes_the_infinity() -> None:
    x, y = np.array([-1.0, 5.3, -1.0, 1.0]), np.array([INF, INF, 3.0, -3.0])
    assert apply("mod", x, y).tolist() == [INF, 5.3, 2.0, -2.0]


def test_float32_pow_and_atan2_are_within_one_and_a_half_ulp() -> None:
    rng = np.random.default_rng(5)
    base = np.abs(every_exponent(np.float32, 100, seed=6))
    with np.errstate(all="ignore"):
        exponent = (rng.uniform(-104, 89, base.size) / np.log(base.astype(np.float64))).astype(np.float32)
        powers = WIDE["pow"](base.astype(np.float64), exponent.astype(np.float64))
    assert ulp_error(apply("pow", base, exponent), powers).max() <= 1.5
    y, x = every_exponent(np.float32, 100, seed=7), rng.permutation(every_exponent(np.float32, 100, seed=8))
    for a, b in ((y, x), rng.uniform(-2, 2, (2, 50_000)).astype(np.float32)):
        with np.errstate(all="ignore"):
            angles = WIDE["atan2"](a.astype(np.float64), b.astype(np.float64))
        assert ulp_error(apply("atan2", a, b), angles).max() <= 1.5


def test_float64_pow_is_within_two_ulp_of_sixty_digits() -> None:
    rng = np.random.default_rng(9)
    base = np.abs(every_exponent(np.float64, 1)[7::13])
    base = np.concatenate([base[np.isfinite(base) & (base > 0) & (base != 1)], rng.uniform(0.5, 2, 300)])
    exponent = rng.uniform(-745, 709, base.size) / np.log(base)
    got = apply("pow", base, exponent)
    for x, y, v in zip(base, exponent, got, strict=True):
        exact = precise.exp(Decimal(float(y)) * precise.log(Decimal(float(x))))
        assert ulp_error_f64(float(v), exact) <= 2, (x.hex(), y.hex(), v.hex())


def test_float64_atan2_is_within_two_ulp_of_sixty_digits() -> None:
    rng = np.random.default_rng(10)
    y, x = rng.uniform(-1, 1, (2, 300)) * 10.0 ** rng.integers(-3, 4, (2, 300))
    got = apply("atan2", y, x)
    for a, b, v in zip(y, x, got, strict=True):
        with precise.localcontext(precise.context()):
            exact = precise.atan(abs(Decimal(float(a)) / Decimal(float(b))))
            exact = (precise.pi(60) - exact if b < 0 else exact).copy_sign(Decimal(float(a)))
        assert ulp_error_f64(float(v), exact) <= 2, (a.hex(), b.hex(), v.hex())


def test_exact_results_are_exact() -> None:
    whole = np.arange(-30.0, 31.0)
    np.testing.assert_array_equal(apply("pow", np.full(61, 2.0), whole), 2.0**whole)
    np.testing.assert_array_equal(apply("pow", whole, np.full(61, 3.0)), whole**3)
    np.testing.assert_array_equal(
        apply("pow", whole.astype(np.float32), np.full(61, 2.0, np.float32)), whole**2
    )
    for dtype in (np.float32, np.float64):
        assert apply("log", np.ones(1, dtype)).tobytes() == np.zeros(1, dtype).tobytes()
        assert apply("exp", np.zeros(1, dtype))[0] == 1


@pytest.mark.parametrize("lane", ["i32", "i64", "u32"])
@pytest.mark.parametrize("name", INTEGER)
def test_integer_functions_are_total_and_have_numpys_values(name: str, lane: str) -> None:
    dtype = LANES[lane][2]
    info, rng = np.iinfo(dtype), np.random.default_rng(11)
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 31, 32, 33, 63, 64]
    edges += [-1, -2, -7] if info.min else []
    grid = np.array(list(itertools.product(edges, edges)), dtype)
    spread = rng.integers(info.min, info.max, (3000, 2), dtype=dtype, endpoint=True)
    spread[::2, 1] >>= dtype(info.bits - 8)
    for pairs in (grid, spread):
        a, b = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        function = {
            "floordiv": np.floor_divide,
            "mod": np.mod,
            "shl": np.left_shift,
            "shr": np.right_shift,
        }[name]
        with np.errstate(all="ignore"):
            expected = function(a, b)
        np.testing.assert_array_equal(apply(name, a, b), expected)


@pytest.mark.parametrize("variant", list(VARIANTS)[1:])
def test_every_compiler_and_vector_width_gives_the_same_bits(variant: str) -> None:
    if variant not in available() or available()[0] == variant:
        pytest.skip(f"needs {VARIANTS[variant][0]} and another compiler to compare with")
    rng = np.random.default_rng(12)
    for name, lane, arity in FUNCTIONS:
        dtype = LANES[lane][2]
        if lane in ("f32", "f64"):
            spread = every_exponent(dtype, 12 if lane == "f32" else 2)
            a = np.concatenate([spread, rng.normal(0, 3, 2001).astype(dtype)])
        else:
            a = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 5001, dtype=dtype)
        operands = [a, rng.permutation(a)][:arity]
        here, there = apply(name, *operands), apply(name, *operands, variant=variant)
        np.testing.assert_array_equal(bits(here), bits(there), err_msg=f"{name}_{lane} built by {variant}")
