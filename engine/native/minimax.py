"""The polynomials of `kmath.h`: minimax fits whose coefficients are rounded one at a time.

`python -m engine.native.minimax` writes `kmath_poly.h`. For each row of `FITS` it seeks the polynomial p
that minimises max |weight(x) (p(x) - target(x))| over an interval, by Remez's exchange algorithm (E. Remez,
1934; E. W. Cheney, Introduction to Approximation Theory, chapter 3) in sixty-digit arithmetic. The lowest
coefficient is then rounded to the float format and the others are fitted again around it, and so on up, so
that each rounding is absorbed by what is still free.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from pathlib import Path

from engine.native import precise
from engine.native.precise import DIGITS, GUARD, context, pi

OUTPUT = Path(__file__).with_name("kmath_poly.h")
GRID_PER_COEFFICIENT = 40
TOLERANCE = Decimal("1.001")
TWO_OVER_PI_WORDS = 20
LN2 = precise.log(Decimal(2))
PI = pi(DIGITS + GUARD)


@dataclass(frozen=True)
class Fit:
    """One polynomial: `count` coefficients in `lane` format ("f32" or "f64") for `target` on [low, high].

    `weight` turns an error of the polynomial into the relative error of the function built on it.
    """

    name: str
    lane: str
    count: int
    low: Decimal
    high: Decimal
    target: Callable[[Decimal], Decimal]
    weight: Callable[[Decimal], Decimal]
    meaning: str


def round_to(lane: str, value: Decimal) -> float:
    """The nearest float64, or float32, to a decimal (Python's conversion is correctly rounded)."""
    if lane == "f64":
        return float(value)
    rounded: float = struct.unpack("f", struct.pack("f", float(value)))[0]
    return rounded


def solve(rows: list[list[Decimal]]) -> list[Decimal]:
    """The solution of a linear system given as augmented rows, by elimination with partial pivoting."""
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda r: abs(rows[r][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for r in range(column + 1, size):
            factor = rows[r][column] / rows[column][column]
            if factor:
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column], strict=True)]
    solution = [Decimal(0)] * size
    for r in reversed(range(size)):
        known = sum((rows[r][c] * solution[c] for c in range(r + 1, size)), Decimal(0))
        solution[r] = (rows[r][size] - known) / rows[r][r]
    return solution


def chebyshev(low: Decimal, high: Decimal, count: int) -> list[Decimal]:
    """Chebyshev nodes of [low, high], ascending; an even count avoids the centre."""
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * Decimal(math.cos(math.pi * (i + 0.5) / count)) for i in range(count)]


def evaluate(coefficients: Sequence[Decimal], x: Decimal) -> Decimal:
    """Horner's scheme, lowest coefficient first."""
    total = Decimal(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def alternation(errors: Sequence[Decimal], count: int) -> list[int]:
    """Indices of `count` extrema of alternating sign, the largest ones; fewer when there are not so many."""
    extrema: list[int] = []
    for i, e in enumerate(errors):
        if extrema and (errors[extrema[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[extrema[-1]]):
                extrema[-1] = i
        else:
            extrema.append(i)
    while len(extrema) > count:
        sizes = [abs(errors[i]) for i in extrema]
        least = sizes.index(min(sizes))
        if len(extrema) == count + 1 or least in (0, len(extrema) - 1):
            extrema.pop(0 if sizes[0] < sizes[-1] else -1)
        else:  # two neighbours leave together, so that signs go on alternating
            pair = least - 1 if sizes[least - 1] < sizes[least + 1] else least
            del extrema[pair : pair + 2]
    return extrema


def remez(
    grid: Sequence[Decimal], values: Sequence[Decimal], weights: Sequence[Decimal], start: int, count: int
) -> list[Decimal]:
    """Coefficients of x^start … x^(start+count-1) with the least weighted error on a grid."""
    size = len(grid)
    reference = [min(size - 1, round(i * (size - 1) / count)) for i in range(count + 1)]
    best: tuple[Decimal, list[Decimal]] | None = None
    for _ in range(30):
        rows = []
        for sign, i in enumerate(reference):
            level = (1 if sign % 2 else -1) / weights[i]
            rows.append([grid[i] ** (start + k) for k in range(count)] + [level, values[i]])
        *coefficients, level = solve(rows)
        errors = [
            w * (evaluate(coefficients, x) * x**start - v)
            for x, v, w in zip(grid, values, weights, strict=True)
        ]
        worst = max(abs(e) for e in errors)
        if best is None or worst < best[0]:
            best = worst, coefficients
        reference = alternation(errors, count + 1)
        if worst <= abs(level) * TOLERANCE or len(reference) < count + 1:
            break
    assert best is not None
    return best[1]


def fit(row: Fit) -> tuple[list[float], Decimal]:
    """The rounded coefficients of a row, lowest first, and the largest weighted error that they leave."""
    with localcontext(context()):
        grid = chebyshev(row.low, row.high, 2 * (GRID_PER_COEFFICIENT * row.count // 2))
        targets = [row.target(x) for x in grid]
        weights = [row.weight(x) for x in grid]
        rest, rounded = list(targets), []
        for k in range(row.count):
            lowest = round_to(row.lane, remez(grid, rest, weights, k, row.count - k)[0])
            rounded.append(lowest)
            rest = [v - Decimal(lowest) * x**k for v, x in zip(rest, grid, strict=True)]
        return rounded, max(abs(w * v) for w, v in zip(weights, rest, strict=True))


def _root(function: Callable[[Decimal], Decimal]) -> Callable[[Decimal], Decimal]:
    """z -> function(s) / s at s = sqrt z: an odd function as a function of the square."""

    def of_square(z: Decimal) -> Decimal:
        s = z.sqrt()
        return function(s) / s

    return of_square


def _odd(name: str, lane: str, count: int, high: str, function: Callable[[Decimal], Decimal]) -> Fit:
    """function(s) = s + s^3 p(s^2) on |s| <= high."""
    ratio = _root(function)
    return Fit(
        name, lane, count, Decimal("1e-12"), Decimal(high) ** 2,
        lambda z: (ratio(z) - 1) / z, lambda z: z / ratio(z), f"{name}(s) = s + s^3 p(s^2), |s| <= {high}",
    )  # fmt: skip


def _exp(name: str, lane: str, count: int) -> Fit:
    return Fit(
        name, lane, count, -LN2 / 2, LN2 / 2,
        lambda r: (precise.expm1(r) - r) / (r * r), lambda r: r * r / precise.exp(r),
        "e^r = 1 + r + r^2 p(r), |r| <= ln2/2",
    )  # fmt: skip


def _erf_small(lane: str, count: int, high: str) -> Fit:
    ratio = _root(precise.erf)
    return Fit(
        "erf_small", lane, count, Decimal("1e-12"), Decimal(high) ** 2,
        lambda z: ratio(z) - 1, lambda z: 1 / ratio(z), f"erf(s) = s + s p(s^2), |s| <= {high}",
    )  # fmt: skip


def _erf_tail(lane: str, count: int, high: str) -> Fit:
    """Expanded about 1, where the function built on it needs most digits."""
    return Fit(
        "erf_tail", lane, count, Decimal(0), Decimal(high) - 1,
        lambda t: precise.log(precise.erfc(t + 1)), lambda t: precise.erfc(t + 1),
        f"1 - erf(s) = e^p(s - 1), 1 <= s <= {high}",
    )  # fmt: skip


def _log_f32() -> Fit:
    return Fit(
        "log", "f32", 9, Decimal(-1) / 3, Decimal(1) / 3,
        lambda f: (precise.log1p(f) - f) / (f * f), lambda f: abs(f * f / precise.log1p(f)),
        "log(1 + f) = f + f^2 p(f), |f| <= 1/3",
    )  # fmt: skip


def _log_ratio(name: str, count: int, drop: int, high: str) -> Fit:
    """log((1+s)/(1-s)) = 2 atanh s [4.6.22, 4.1.27], without its first `drop` terms 2 s^(2k+1)/(2k+1)."""

    def remainder(z: Decimal) -> Decimal:
        s = z.sqrt()
        value = precise.log((1 + s) / (1 - s)) / s
        for k in range(drop):
            value = (value - Decimal(2) / (2 * k + 1)) / z
        return value

    terms = "2 s" if drop == 1 else "2 s + 2/3 s^3"
    return Fit(
        name, "f64", count, Decimal("1e-7"), Decimal(high) ** 2, remainder, lambda z: z**drop,
        f"log((1+s)/(1-s)) = {terms} + s^{2 * drop + 1} p(s^2), |s| <= {high}",
    )  # fmt: skip


def _cos(lane: str, count: int, high: str) -> Fit:
    def remainder(z: Decimal) -> Decimal:
        return (precise.cos(z.sqrt()) - 1 + z / 2) / (z * z)

    return Fit(
        "cos", lane, count, Decimal("1e-12"), Decimal(high) ** 2,
        remainder, lambda z: z * z, f"cos(s) = 1 - s^2/2 + s^4 p(s^2), |s| <= {high}",
    )  # fmt: skip


QUARTER_PI = "0.7854"  # a hair above pi/4, since the reduction rounds
LOG_S = "0.17158"  # (sqrt 2 - 1) / (sqrt 2 + 1), rounded up

FITS = (
    _exp("exp", "f32", 5),
    _log_f32(),
    _odd("tanh", "f32", 5, "0.55", precise.tanh),
    _erf_small("f32", 7, "1.0"),
    _erf_tail("f32", 8, "4.0"),
    _odd("sin", "f32", 3, QUARTER_PI, precise.sin),
    _cos("f32", 3, QUARTER_PI),
    _odd("atan", "f32", 5, "0.41422", precise.atan),
    _exp("exp", "f64", 10),
    _exp("exp_short", "f64", 6),
    _log_ratio("log", 7, 1, LOG_S),
    _log_ratio("log_short", 4, 1, LOG_S),
    _log_ratio("log_pow", 7, 2, LOG_S),
    _odd("tanh", "f64", 11, "0.55", precise.tanh),
    _erf_small("f64", 12, "1.0"),
    _erf_tail("f64", 18, "6.0"),
    _odd("sin", "f64", 6, QUARTER_PI, precise.sin),
    _cos("f64", 6, QUARTER_PI),
    _odd("atan", "f64", 11, "0.41422", precise.atan),
)


def literal(lane: str, value: float) -> str:
    """A float as a C hexadecimal literal without idle zeros."""
    digits, exponent = value.hex().split("p")
    return f"{digits.rstrip('0').rstrip('.')}p{exponent}" + ("f" if lane == "f32" else "")


def print_fit(row: Fit) -> str:
    """A vector function in C that evaluates a row's polynomial by Horner's scheme."""
    coefficients, error = fit(row)
    first, *others = [literal(row.lane, c) for c in reversed(coefficients)]
    lines = [
        f"/* {row.meaning}; weighted error 2^{math.log2(error):.1f} */",
        f"VEC_FN v{row.lane} k_poly_{row.name}_{row.lane}(v{row.lane} x) {{",
        f"    v{row.lane} p = set1_{row.lane}({first});",
        *[f"    p = fma_{row.lane}(p, x, set1_{row.lane}({c}));" for c in others],
        "    return p;",
        "}",
    ]
    return "\n".join(lines)


def split(lane: str, name: str, value: Decimal, parts: int) -> str:
    """A constant as the unevaluated sum of several floats, highest first, as C macros."""
    lines = []
    with localcontext(context()):
        for part in range(1, parts + 1):
            rounded = round_to(lane, value)
            value -= Decimal(rounded)
            lines.append(f"#define K_{name}_{part}_{lane} {literal(lane, rounded)}")
    return "\n".join(lines)


def short_ln2(lane: str, bits: int) -> str:
    """ln 2 as a leading part of that many bits, whose small multiples are exact, and the rest."""
    with localcontext(context()):
        high = (LN2 * 2**bits).to_integral_value() / 2**bits
        low = round_to(lane, LN2 - high)
    return (
        f"#define K_LN2_HIGH_{lane} {literal(lane, float(high))}\n"
        f"#define K_LN2_LOW_{lane} {literal(lane, low)}"
    )


def two_over_pi() -> str:
    """A zero word, then the first bits of 2/pi as 64-bit words, most significant first (Payne and Hanek)."""
    digits = 64 * TWO_OVER_PI_WORDS // 3
    with localcontext(context(digits)):
        bits = int(2 / pi(digits) * 2 ** (64 * TWO_OVER_PI_WORDS))
    words = [f"0x{bits >> 64 * i & 2**64 - 1:016x}u" for i in reversed(range(TWO_OVER_PI_WORDS + 1))]
    rows = [", ".join(words[i : i + 4]) for i in range(0, len(words), 4)]
    body = ",\n    ".join(rows)
    return f"static const uint64_t k_two_over_pi[{len(words)}] = {{\n    {body}}};"


def constants() -> str:
    """The multi-part constants of the argument reductions."""
    with localcontext(context()):
        parts = [
            short_ln2("f32", 15),
            short_ln2("f64", 40),
            split("f32", "PIO2", PI / 2, 3),
            split("f64", "PIO2", PI / 2, 3),
            split("f32", "PIO4", PI / 4, 2),
            split("f64", "PIO4", PI / 4, 2),
            split("f64", "TWO_THIRDS", Decimal(2) / 3, 2),
            two_over_pi(),
        ]
    return "\n".join(parts)


def header() -> str:
    """The whole text of `kmath_poly.h`."""
    return "\n\n".join(
        [
            "/* Written by `python -m engine.native.minimax`; do not edit. */\n"
            "#ifndef GRADMILL_KMATH_POLY_H\n#define GRADMILL_KMATH_POLY_H\n\n"
            '#include "vec.h"',
            constants(),
            *map(print_fit, FITS),
            "#endif\n",
        ]
    )


if __name__ == "__main__":
    OUTPUT.write_text(header())
