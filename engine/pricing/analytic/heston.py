"""Heston's model: European options by one integral of the characteristic function, and variance swaps."""

from __future__ import annotations

from cmath import exp as cexp
from cmath import log as clog
from cmath import sqrt as csqrt
from math import exp, expm1, log, pi, sqrt

from engine.pricing.analytic.black import digital_payoff, forward, in_the_money
from engine.pricing.analytic.method import Method
from engine.pricing.numerics.quadrature import legendre
from engine.pricing.spec import Heston, Spec
from engine.pricing.spec.products import Digital, European, VarianceSwap

_RULE = legendre(16)
_SMALL = 1e-16
_MOST_PANELS = 4000


def mean_variance(model: Heston, time: float) -> float:
    """The mean of the integral of v over [0, time]."""
    rate = model.kappa * time
    share = -expm1(-rate) / model.kappa if rate > 1e-12 else time
    return model.theta * (time - share) + model.v0 * share


def log_characteristic(model: Heston, u: complex, time: float) -> complex:
    """log E exp(i u X) for the log of S_T over its forward, without branch cuts or loss at small xi.

    The form with exp(-d t) of Albrecher, Mayer, Schoutens and Tistaert (2007). With (b - d)(b + d) =
    -xi^2 (u^2 + i u), the divisions by xi^2 are carried out beforehand.
    """
    q = u * u + 1j * u
    b = model.kappa - 1j * model.rho * model.xi * u
    d = csqrt(b * b + model.xi * model.xi * q)
    low = -q / (b + d)
    square = model.xi * model.xi
    g = square * low / (b + d)
    decay = cexp(-d * time)
    ratio = g * (1.0 - decay) / (1.0 - g)
    at_v0 = low * (1.0 - decay) / (1.0 - g * decay)
    bend = _log_1p(ratio) / square if square > 0.0 else low * (1.0 - decay) / (b + d)
    return model.kappa * model.theta * (low * time - 2.0 * bend) + model.v0 * at_v0


def _log_1p(z: complex) -> complex:
    if abs(z) > 1e-3:
        return clog(1.0 + z)
    return z * (1.0 - z * (0.5 - z * (1.0 / 3.0 - z * (0.25 - z * (0.2 - z / 6.0)))))


def european(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, European)
    mean, discount = forward(spec), spec.market.discount(spec.expiry)
    chance, held = _beyond(spec, product.strike)
    call = held - product.strike * chance
    return discount * (call if product.type == "call" else call - mean + product.strike)


def digital(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, Digital)
    value = digital_payoff(product, forward(spec), *_beyond(spec, product.strike))
    return spec.market.discount(spec.expiry) * product.payout * value


def _beyond(spec: Spec, strike: float) -> tuple[float, float]:
    """P(S > strike) at expiry, and the mean of S there.

    Lewis's integral along Im u = -1/2, less that of the lognormal law with the same mean variance, gives the
    call; its derivative in the strike is the probability.
    """
    model, time, mean = spec.model, spec.expiry, forward(spec)
    assert isinstance(model, Heston)
    variance = mean_variance(model, time)
    s = sqrt(variance)
    chance, held = (in_the_money("call", mean, strike, s, asset) for asset in (False, True))
    if mean <= 0.0 or strike <= 0.0 or variance <= 0.0 or model.xi == 0.0:
        return chance, held
    k = log(mean / strike)
    level, slope = _difference(model, time, k, variance)
    more = sqrt(mean / strike) / pi * (0.5 * level - slope)
    return chance + more, held + strike * more - sqrt(mean * strike) / pi * level


def _difference(model: Heston, time: float, k: float, variance: float) -> tuple[float, float]:
    """The integral over u > 0 of Re exp(i u k) (heston - lognormal) / (u^2 + 1/4), and its slope in k.

    The difference decays at both ends; panels widen away from 0, and end where nothing more is added.
    """
    skew = abs(model.rho) / model.xi * (model.v0 + model.kappa * model.theta * time)
    # skew is the phase's slope far out; where the law is near lognormal, that is beyond all that counts
    turning = abs(k) + min(skew, 4.0 * sqrt(variance))
    longest = 12.0 / (turning + 1e-3)
    level, slope, start, width = 0.0, 0.0, 0.0, min(0.5, longest)
    for _ in range(_MOST_PANELS):
        half = 0.5 * width
        size = 0.0
        for node, weight in _RULE:
            u = start + half * (1.0 + node)
            q = u * u + 0.25
            gap = cexp(log_characteristic(model, u - 0.5j, time)) - exp(-0.5 * variance * q)
            turned = cexp(1j * u * k) * gap
            level += half * weight * turned.real / q
            slope -= half * weight * u * turned.imag / q
            size = max(size, abs(gap) / q)
        start += width
        width = min(max(0.5, 0.5 * start), longest)
        if size * start < _SMALL:
            break
    return level, slope


def variance_swap(spec: Spec) -> float:
    product, model, time = spec.product, spec.model, spec.expiry
    assert isinstance(product, VarianceSwap) and isinstance(model, Heston)
    fair = mean_variance(model, time) / time
    return spec.market.discount(time) * product.notional * (fair - product.strike)


def is_continuous_swap(spec: Spec) -> bool:
    assert isinstance(spec.product, VarianceSwap)
    return spec.product.monitoring.kind == "continuous"


_SOURCE = "Heston (1993); Lewis (2000): one integral; Andersen, Lake (2018): the lognormal part taken out"

METHODS = (
    Method(
        European,
        Heston,
        "quadrature",
        _SOURCE,
        european,
    ),
    Method(Digital, Heston, "quadrature", _SOURCE, digital),
    Method(
        VarianceSwap,
        Heston,
        "closed form",
        "mean of the integrated square-root process (Cox, Ingersoll, Ross 1985)",
        variance_swap,
        is_continuous_swap,
    ),
)
