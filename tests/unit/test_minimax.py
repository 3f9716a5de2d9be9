"""The committed polynomials are what the minimax script finds, and its decimal functions are right."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest

from engine.native import minimax, precise

COMMITTED = minimax.OUTPUT.read_text()
QUICK = [row for row in minimax.FITS if row.lane == "f32" or row.name in ("exp", "sin", "log_pow")]


@pytest.mark.parametrize("row", QUICK, ids=lambda row: f"{row.name}_{row.lane}")
def test_a_fit_finds_the_committed_coefficients_again(row: minimax.Fit) -> None:
    assert minimax.print_fit(row) in COMMITTED


def test_the_constants_of_the_reductions_are_committed() -> None:
    assert minimax.constants() in COMMITTED


@pytest.mark.slow
def test_the_whole_header_is_what_the_script_writes() -> None:
    assert minimax.header() == COMMITTED


def test_remez_finds_the_known_best_line_through_the_exponential() -> None:
    """On [0, 1]: slope e - 1, and equal errors at both ends and where the derivative is the slope."""
    with localcontext(precise.context()):
        grid = minimax.chebyshev(Decimal(0), Decimal(1), 2000)
        constant, slope = minimax.remez(grid, [x.exp() for x in grid], [Decimal(1)] * len(grid), 0, 2)
    known = (math.e - (math.e - 1) * math.log(math.e - 1)) / 2
    assert float(slope) == pytest.approx(math.e - 1, abs=1e-5)
    assert float(constant) == pytest.approx(known, abs=1e-5)


def test_alternation_keeps_the_largest_extrema_with_alternating_signs() -> None:
    errors = [Decimal(e) for e in (1, 5, -4, 1, -1, 3, -6, 2)]
    assert minimax.alternation(errors, 4) == [1, 2, 5, 6]
    assert minimax.alternation(errors, 9) == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    "name", ["exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "erfc", "atan"]
)
@pytest.mark.parametrize("x", [1e-9, 0.3, 0.785, 1.0, 2.5, 5.0, 100.25])
def test_decimal_functions_round_to_those_of_the_c_library(name: str, x: float) -> None:
    function = {"log1p": math.log1p, "expm1": math.expm1}.get(name) or getattr(math, name)
    if name == "erfc" and x > 6:
        pytest.skip("erfc is good to x = 6")
    assert float(getattr(precise, name)(Decimal(x))) == pytest.approx(function(x), rel=5e-16)


def test_decimal_identities_hold_to_fifty_digits() -> None:
    x = Decimal("0.7312345678901234567890123")
    with localcontext(precise.context()):
        assert abs(precise.sin(x) ** 2 + precise.cos(x) ** 2 - 1) < Decimal("1e-55")
        assert abs(precise.exp(precise.log(x)) / x - 1) < Decimal("1e-55")
        assert abs(precise.expm1(precise.log1p(x)) / x - 1) < Decimal("1e-55")
        assert abs(precise.atan(precise.sin(x) / precise.cos(x)) / x - 1) < Decimal("1e-55")
        assert abs(4 * precise.atan(Decimal(1)) - precise.pi(70)) < Decimal("1e-55")
        assert abs(precise.tanh(x) * (1 + precise.exp(-2 * x)) + precise.expm1(-2 * x)) < Decimal("1e-55")
        half = precise.erf(Decimal("0.47693627620446987338141835364313055980896974906"))
        assert abs(half - Decimal("0.5")) < Decimal("1e-46")
