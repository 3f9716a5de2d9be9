"""Models whose volatility depends on the spot: constant elasticity of variance, displaced diffusion."""

from __future__ import annotations

from math import expm1, sqrt

from engine.pricing.analytic.black import black, forward
from engine.pricing.analytic.method import Method
from engine.pricing.numerics.chi_square import noncentral
from engine.pricing.spec import Cev, Displaced, Spec
from engine.pricing.spec.products import European

_SMALLEST_GAP = 1e-3
"""Elasticities nearer to 1 need a series of more than a million terms."""


def cev_serves(spec: Spec) -> bool:
    """Constant rates; beta is 1, or below it by enough for the series; the spot can move."""
    market, model = spec.market, spec.model
    assert isinstance(model, Cev) and isinstance(spec.product, European)
    steady = market.rate.is_constant and market.yields[0].is_constant and not market.dividends
    gap = 1.0 - model.beta
    return steady and (gap == 0.0 or gap >= _SMALLEST_GAP)


def cev(spec: Spec) -> float:
    """The law of the spot is a noncentral chi-square one, with what reaches 0 staying there."""
    product, market, time, model = spec.product, spec.market, spec.expiry, spec.model
    assert isinstance(product, European) and isinstance(model, Cev)
    mean, strike, discount = forward(spec), product.strike, market.discount(time)
    if model.beta == 1.0 or mean <= 0.0 or strike <= 0.0 or model.scale == 0.0:
        return discount * black(product.type, mean, strike, model.scale * sqrt(time))
    power = 2.0 * (1.0 - model.beta)
    carry = market.carry(0, 0.0, time) * power
    clock = expm1(carry) / carry * time if carry != 0.0 else time
    k = 2.0 / (model.scale**2 * power * power * clock)
    x, y = k * mean**power, k * strike**power
    below, above = noncentral(2.0 * x, 2.0 / power, 2.0 * y), noncentral(2.0 * y, 2.0 + 2.0 / power, 2.0 * x)
    if product.type == "call":
        return discount * (mean * (1.0 - above) - strike * below)
    return discount * (strike * (1.0 - below) - mean * above)


def displaced(spec: Spec) -> float:
    product, model, market, time = spec.product, spec.model, spec.market, spec.expiry
    assert isinstance(product, European) and isinstance(model, Displaced)
    mean, strike = forward(spec) + model.shift, product.strike + model.shift
    sign = 1.0 if product.type == "call" else -1.0
    s = sqrt(market.variance(0, 0.0, time))
    value = black(product.type, mean, strike, s) if strike > 0.0 else max(sign * (mean - strike), 0.0)
    return market.discount(time) * value


def displaced_serves(spec: Spec) -> bool:
    """The displaced forward must be positive."""
    assert isinstance(spec.model, Displaced)
    return forward(spec) + spec.model.shift > 0.0


METHODS = (
    Method(
        European,
        Cev,
        "series",
        "Cox (1975), Schroder (1989): Computing the constant elasticity of variance formula",
        cev,
        cev_serves,
    ),
    Method(
        European,
        Displaced,
        "closed form",
        "Rubinstein (1983): Displaced diffusion",
        displaced,
        displaced_serves,
    ),
)
