"""Normal laws, quadrature, chi-square and roots against identities and values known to many digits."""

from __future__ import annotations

from math import asin, cosh, exp, inf, log, pi, sqrt, tanh

import pytest

from engine.pricing.numerics.chi_square import gamma_p, noncentral
from engine.pricing.numerics.implied import bachelier_deviation, black_deviation, time_value
from engine.pricing.numerics.normal import cdf, cdf2, density, mills, quantile
from engine.pricing.numerics.quadrature import hermite, integrate, legendre, panels
from engine.pricing.numerics.roots import find_root
from engine.pricing.numerics.symmetric import eigen


@pytest.mark.parametrize(
    ("x", "value"),
    [
        (0.0, 0.5),
        (1.0, 0.841344746068542949),
        (-5.0, 2.86651571879193912e-07),
        (-10.0, 7.61985302416052606e-24),
    ],
)
def test_the_normal_law_keeps_its_relative_accuracy(x: float, value: float) -> None:
    assert cdf(x) == pytest.approx(value, rel=2e-16 * (1.0 + x * x), abs=0.0)
    assert mills(-x) == pytest.approx(value / density(x), rel=2e-16 * (1.0 + x * x))
    assert quantile(cdf(x)) == pytest.approx(x, abs=1e-14)


def test_the_ratio_of_tail_and_density_goes_on_where_both_end() -> None:
    """At 100 the asymptotic series 1/x - 1/x^3 + 3/x^5 - 15/x^7 has more digits than a double."""
    x = 100.0
    assert mills(x) == pytest.approx(1.0 / x - x**-3 + 3.0 * x**-5 - 15.0 * x**-7 + 105.0 * x**-9, rel=4e-16)
    assert mills(6.0) == pytest.approx(mills(5.999999999999999), rel=1e-14)


@pytest.mark.parametrize("rho", [-0.999, -0.85, -0.5, 0.0, 0.3, 0.79, 0.81, 0.99, 0.999999])
def test_two_normals_at_their_medians(rho: float) -> None:
    assert cdf2(0.0, 0.0, rho) == pytest.approx(0.25 + asin(rho) / (2.0 * pi), abs=2e-15)


@pytest.mark.parametrize("rho", [-1.0, -0.9, -0.3, 0.2, 0.9, 1.0])
def test_two_normals_complement_each_other(rho: float) -> None:
    for x, y in ((0.3, -1.2), (1.0, 1.01), (-2.0, 0.5), (0.7, 0.7)):
        assert cdf2(x, y, rho) == pytest.approx(cdf2(y, x, rho), abs=1e-15)
        assert cdf2(x, y, rho) + cdf2(x, -y, -rho) == pytest.approx(cdf(x), abs=2e-15)
    assert cdf2(0.4, inf, rho) == cdf(0.4)
    assert cdf2(0.4, -inf, rho) == 0.0


@pytest.mark.parametrize("rho", [-0.95, 0.4, 0.9])
def test_two_normals_are_an_integral_of_one(rho: float) -> None:
    s = sqrt(1.0 - rho * rho)
    for x, y in ((0.3, -1.2), (1.0, 1.01), (-2.0, 0.5)):
        direct = integrate(lambda t, y=y: density(t) * cdf((y - rho * t) / s), panels(-10.0, x, 0.1))
        assert cdf2(x, y, rho) == pytest.approx(direct, abs=3e-15)


@pytest.mark.parametrize("n", [1, 2, 7, 16, 41])
def test_gauss_rules_are_exact_for_polynomials(n: int) -> None:
    degree = min(2 * n - 2, 40)
    assert sum(w * x**degree for x, w in legendre(n)) == pytest.approx(2.0 / (degree + 1), rel=1e-13)
    factorial = 1.0
    for k in range(degree - 1, 0, -2):
        factorial *= k
    assert sum(w * x**degree for x, w in hermite(n)) == pytest.approx(factorial, rel=1e-11)


def test_the_incomplete_gamma_function() -> None:
    assert gamma_p(1.0, 2.5) == pytest.approx(1.0 - exp(-2.5), rel=1e-15)
    for x in (0.1, 1.0, 30.0):
        assert gamma_p(0.5, x) == pytest.approx(2.0 * cdf(sqrt(2.0 * x)) - 1.0, rel=1e-14)


def test_the_noncentral_chi_square_law_of_one_degree_is_that_of_a_squared_normal() -> None:
    for x, shift in ((0.5, 0.3), (9.0, 2.0), (100.0, 9.5), (400.0, 25.0)):
        expected = cdf(sqrt(x) - shift) - cdf(-sqrt(x) - shift)
        assert noncentral(x, 1.0, shift * shift) == pytest.approx(expected, rel=1e-13)


def test_roots_to_the_last_bits() -> None:
    assert find_root(lambda x: x * x - 2.0, 0.0, 2.0) == pytest.approx(sqrt(2.0), rel=4e-16)
    assert find_root(lambda x: tanh(x) - 0.5, -50.0, 80.0) == pytest.approx(0.5493061443340548, rel=1e-15)
    assert find_root(lambda x: cosh(x) - 1e10, 1.0, 50.0) == pytest.approx(log(2e10), rel=1e-15)
    with pytest.raises(ValueError, match="no change of sign"):
        find_root(lambda x: x * x + 1.0, -1.0, 1.0)


def test_eigenvalues_and_vectors_rebuild_the_matrix() -> None:
    matrix = ((2.0, -1.0, 0.5), (-1.0, 3.0, 0.25), (0.5, 0.25, 1.0))
    values, vectors = eigen(matrix)
    for i in range(3):
        for j in range(3):
            rebuilt = sum(values[k] * vectors[i][k] * vectors[j][k] for k in range(3))
            assert rebuilt == pytest.approx(matrix[i][j], abs=1e-14)


@pytest.mark.parametrize("x", [0.0, -1e-3, -0.1, -1.0, -3.0])
@pytest.mark.parametrize("s", [0.02, 0.3, 1.0, 5.0])
def test_deviations_come_back_from_time_values(x: float, s: float) -> None:
    value = time_value(x, s)
    if 0.0 < value < 0.999 * exp(0.5 * x):
        assert black_deviation(x, value) == pytest.approx(s, rel=1e-13)


def test_small_time_values_keep_their_relative_accuracy() -> None:
    """50 digits: the value of a call 8 deviations out of the money."""
    x, s = -1.6, 0.2
    assert time_value(x, s) == pytest.approx(1.50273351903591353e-17, rel=2e-14, abs=0.0)


def test_bachelier_deviations() -> None:
    for distance, s in ((0.0, 3.0), (1.0, 3.0), (30.0, 4.0)):
        value = s * density(distance / s) - distance * cdf(-distance / s)
        tolerance = 1e-14 if distance < 2.0 else 1e-12
        assert bachelier_deviation(distance, value) == pytest.approx(s, rel=tolerance)
