"""Heston's model: European options by one integral of the characteristic function, and variance swaps."""

from __future__ import annotations

from cmath import exp as cexp
from cmath import log as clog
from cmath import sqrt as csqrt
from math import exp, expm1, log, pi, sqrt

from engine.pricing.analytic.black import black, forward
from engine.pricing.analytic.method import Method
from engine.pricing.numerics.quadrature import legendre
from engine.pricing.spec import Heston, Spec
from engine.pricing.spec.products import European, VarianceSwap

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
    """Lewis's integral along Im u = -1/2, less that of the lognormal law with the same mean variance.

    The difference decays at both ends; panels widen away from 0, and end where nothing more is added.
    """
    product, model, time = spec.product, spec.model, spec.expiry
    assert isinstance(product, European) and isinstance(model, Heston)
    mean, strike, discount = forward(spec), product.strike, spec.market.discount(time)
    variance = mean_variance(model, time)
    value = black(product.type, mean, strike, sqrt(variance))
    if mean <= 0.0 or strike <= 0.0 or variance <= 0.0 or (model.xi == 0.0):
        return discount * value
    k = log(mean / strike)
    return discount * (value - sqrt(mean * strike) / pi * _difference(model, time, k, variance))


def _difference(model: Heston, time: float, k: float, variance: float) -> float:
    """The integral over u > 0 of Re exp(i u k) (heston - lognormal) / (u^2 + 1/4)."""
    skew = abs(model.rho) / model.xi * (model.v0 + model.kappa * model.theta * time)
    # skew is the phase's slope far out; where the law is near lognormal, that is beyond all that counts
    turning = abs(k) + min(skew, 4.0 * sqrt(variance))
    longest = 12.0 / (turning + 1e-3)
    total, start, width = 0.0, 0.0, min(0.5, longest)
    for _ in range(_MOST_PANELS):
        half = 0.5 * width
        size = 0.0
        for node, weight in _RULE:
            u = start + half * (1.0 + node)
            q = u * u + 0.25
            turn = cexp(1j * u * k)
            gap = cexp(log_characteristic(model, u - 0.5j, time)) - exp(-0.5 * variance * q)
            term = weight * (turn * gap).real / q
            total += half * term
            size = max(size, abs(gap) / q)
        start += width
        width = min(max(0.5, 0.5 * start), longest)
        if size * start < _SMALL:
            break
    return total


def variance_swap(spec: Spec) -> float:
    product, model, time = spec.product, spec.model, spec.expiry
    assert isinstance(product, VarianceSwap) and isinstance(model, Heston)
    fair = mean_variance(model, time) / time
    return spec.market.discount(time) * product.notional * (fair - product.strike)


def is_continuous_swap(spec: Spec) -> bool:
    assert isinstance(spec.product, VarianceSwap)
    return spec.product.monitoring.kind == "continuous"


METHODS = (
    Method(
        European,
        Heston,
        "quadrature",
        "Heston (1993); Lewis (2000): one integral; Andersen, Lake (2018): the lognormal part taken out",
        european,
    ),
    Method(
        VarianceSwap,
        Heston,
        "closed form",
        "mean of the integrated square-root process (Cox, Ingersoll, Ross 1985)",
        variance_swap,
        is_continuous_swap,
    ),
)
