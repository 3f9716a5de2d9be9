"""Models whose volatility depends on the spot: constant elasticity of variance, displaced diffusion."""

from __future__ import annotations

from math import expm1, inf, sqrt

from engine.pricing.analytic.black import black, digital_payoff, forward, in_the_money
from engine.pricing.analytic.method import Method
from engine.pricing.numerics.chi_square import noncentral
from engine.pricing.spec import Cev, Displaced, Spec
from engine.pricing.spec.products import Digital, European

_SMALLEST_GAP = 1e-3
_LARGEST = 1e10
"""Elasticities nearer to 1, and spots and strikes beyond this many scales, need more than a million terms."""


def cev_serves(spec: Spec) -> bool:
    """Constant rates; beta is 1, or below it by enough for the series, as are the spot and the strike."""
    market, model, product = spec.market, spec.model, spec.product
    assert isinstance(model, Cev) and isinstance(product, European | Digital)
    steady = market.rate.is_constant and market.yields[0].is_constant and not market.dividends
    gap = 1.0 - model.beta
    if gap == 0.0 or not steady or model.scale == 0.0:
        return steady
    return gap >= _SMALLEST_GAP and max(_scaled(spec, product.strike)) <= _LARGEST


def cev(spec: Spec) -> float:
    product, mean = spec.product, forward(spec)
    assert isinstance(product, European)
    if _is_lognormal(spec, product.strike):
        value = black(product.type, mean, product.strike, _deviation(spec))
    else:
        chance, below = _split(spec, product.strike)
        call = product.type == "call"
        value = mean - below - product.strike * chance if call else product.strike * (1.0 - chance) - below
    return spec.market.discount(spec.expiry) * max(value, 0.0)


def cev_digital(spec: Spec) -> float:
    product, mean = spec.product, forward(spec)
    assert isinstance(product, Digital)
    if _is_lognormal(spec, product.strike):
        asset = product.pays == "asset"
        value = in_the_money(product.type, mean, product.strike, _deviation(spec), asset)
    else:
        chance, below = _split(spec, product.strike)
        value = digital_payoff(product, mean, chance, mean - below)
    return spec.market.discount(spec.expiry) * product.payout * max(value, 0.0)


def _is_lognormal(spec: Spec, strike: float) -> bool:
    model = spec.model
    assert isinstance(model, Cev)
    return model.beta == 1.0 or model.scale == 0.0 or min(forward(spec), strike) <= 0.0


def _deviation(spec: Spec) -> float:
    assert isinstance(spec.model, Cev)
    return spec.model.scale * sqrt(spec.expiry)


def _split(spec: Spec, strike: float) -> tuple[float, float]:
    """P(S > strike) at expiry, and the mean of S where it is not.

    The law of the spot is a noncentral chi-square one, with what reaches 0 staying there.
    """
    assert isinstance(spec.model, Cev)
    power = 2.0 * (1.0 - spec.model.beta)
    x, y = _scaled(spec, strike)
    chance = noncentral(2.0 * x, 2.0 / power, 2.0 * y)
    return chance, forward(spec) * noncentral(2.0 * y, 2.0 + 2.0 / power, 2.0 * x)


def _scaled(spec: Spec, strike: float) -> tuple[float, float]:
    """Forward and strike as arguments of the noncentral chi-square law."""
    market, time, model = spec.market, spec.expiry, spec.model
    assert isinstance(model, Cev)
    power = 2.0 * (1.0 - model.beta)
    carry = market.carry(0, 0.0, time) * power
    clock = expm1(carry) / carry * time if carry != 0.0 else time
    width = model.scale**2 * power * power * clock
    if width == 0.0:
        return inf, inf
    return 2.0 * forward(spec) ** power / width, 2.0 * strike**power / width


def displaced(spec: Spec) -> float:
    """Black's formula for the forward and the strike, both displaced; the former is lognormal."""
    product = spec.product
    assert isinstance(product, European)
    return spec.market.discount(spec.expiry) * black(product.type, *_displaced(spec, product.strike))


def displaced_digital(spec: Spec) -> float:
    product, model = spec.product, spec.model
    assert isinstance(product, Digital) and isinstance(model, Displaced)
    law = _displaced(spec, product.strike)
    value = in_the_money(product.type, *law, False)
    if product.pays == "asset":
        value = in_the_money(product.type, *law, True) - model.shift * value
    return spec.market.discount(spec.expiry) * product.payout * value


def _displaced(spec: Spec, strike: float) -> tuple[float, float, float]:
    """Forward and strike, displaced, and the forward's log deviation."""
    model = spec.model
    assert isinstance(model, Displaced)
    s = sqrt(spec.market.variance(0, 0.0, spec.expiry))
    return forward(spec) + model.shift, strike + model.shift, s


def displaced_serves(spec: Spec) -> bool:
    """The displaced forward must be positive."""
    assert isinstance(spec.model, Displaced)
    return forward(spec) + spec.model.shift > 0.0


_CEV = "Cox (1975), Schroder (1989): Computing the constant elasticity of variance formula"
_DISPLACED = "Rubinstein (1983): Displaced diffusion"

METHODS = (
    Method(European, Cev, "series", _CEV, cev, cev_serves),
    Method(European, Displaced, "closed form", _DISPLACED, displaced, displaced_serves),
    Method(Digital, Cev, "series", _CEV, cev_digital, cev_serves),
    Method(Digital, Displaced, "closed form", _DISPLACED, displaced_digital, displaced_serves),
)
