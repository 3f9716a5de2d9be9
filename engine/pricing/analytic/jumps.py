"""Merton's jump diffusion: given the number of jumps the spot is lognormal."""

from __future__ import annotations

from math import exp, log, sqrt

from engine.pricing.analytic.black import black, forward, in_the_money
from engine.pricing.analytic.method import Method
from engine.pricing.spec import MertonJumps, Spec
from engine.pricing.spec.products import Digital, European

_LEAST = 1e-18


def mixture(spec: Spec) -> list[tuple[float, float, float]]:
    """(probability, forward, log deviation) for each number of jumps that matters.

    Terms run from the mode outwards until what is left is below 1e-18 of the mode.
    """
    model = spec.model
    assert isinstance(model, MertonJumps)
    expected = model.intensity * spec.expiry
    growth = model.mean + 0.5 * model.deviation**2
    mean = forward(spec) * exp(-expected * (exp(growth) - 1.0))
    variance = spec.market.variance(0, 0.0, spec.expiry)
    terms = []
    for count, chance in _poisson(expected, growth):
        s = sqrt(variance + count * model.deviation**2)
        terms.append((chance, mean * exp(count * growth), s))
    return terms


def _poisson(expected: float, growth: float) -> list[tuple[int, float]]:
    """Numbers of jumps and their probabilities, far enough for the mean of exp(growth count) too."""
    if expected == 0.0:
        return [(0, 1.0)]
    chances, count, logarithm = [], 0, -expected
    last = 20.0 + 2.0 * expected * max(1.0, exp(growth))
    while True:
        chances.append((count, exp(logarithm)))
        count += 1
        logarithm += log(expected / count)
        if count > last and logarithm + max(growth, 0.0) * count < log(_LEAST):
            return chances


def european(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, European)
    total = sum(chance * black(product.type, mean, product.strike, s) for chance, mean, s in mixture(spec))
    return spec.market.discount(spec.expiry) * total


def digital(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, Digital)
    asset = product.pays == "asset"
    total = sum(
        chance * in_the_money(product.type, mean, product.strike, s, asset)
        for chance, mean, s in mixture(spec)
    )
    return spec.market.discount(spec.expiry) * product.payout * total


_SOURCE = "Merton (1976): Option pricing when underlying stock returns are discontinuous"

METHODS = (
    Method(European, MertonJumps, "series", _SOURCE, european),
    Method(Digital, MertonJumps, "series", _SOURCE, digital),
)
