"""Heston's model: European options by one integral of the characteristic function, and variance swaps."""

from __future__ import annotations

from cmath import exp as cexp
from cmath import log as clog
from cmath import sqrt as csqrt
from math import exp, expm1, log, pi, sqrt

from engine.pricing.analytic.black import black, forward, in_the_money
from engine.pricing.analytic.method import Method, UnknownError
from engine.pricing.numerics.quadrature import legendre
from engine.pricing.spec import Heston, Spec
from engine.pricing.spec.products import Digital, European, VarianceSwap

_RULE = legendre(16)
_SMALL = 1e-16
_MOST_PANELS = 4000
_LARGEST_REST = 1e-11
"""What may be left of the integral after these panels."""


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
    """The lognormal value with the same mean variance, and what Lewis's integral along Im u = -1/2 adds."""
    product, mean = spec.product, forward(spec)
    assert isinstance(product, European)
    level, _ = _correction(spec, product.strike)
    plain = black(product.type, mean, product.strike, _deviation(spec))
    return spec.market.discount(spec.expiry) * max(plain - sqrt(mean * product.strike) * level, 0.0)


def digital(spec: Spec) -> float:
    """The slope of the European option in the strike."""
    product, mean = spec.product, forward(spec)
    assert isinstance(product, Digital)
    strike, s = product.strike, _deviation(spec)
    level, slope = _correction(spec, strike)
    chance, held = (in_the_money(product.type, mean, strike, s, asset) for asset in (False, True))
    sign = 1.0 if product.type == "call" else -1.0
    more = sign * sqrt(mean / strike) * (0.5 * level - slope) if level != 0.0 or slope != 0.0 else 0.0
    value = chance + more
    if product.pays == "asset":
        value = held + strike * more - sign * sqrt(mean * strike) * level
    return spec.market.discount(spec.expiry) * product.payout * max(value, 0.0)


def _deviation(spec: Spec) -> float:
    assert isinstance(spec.model, Heston)
    return sqrt(mean_variance(spec.model, spec.expiry))


def _correction(spec: Spec, strike: float) -> tuple[float, float]:
    """The integral of the difference to the lognormal law over pi, and its slope in log(forward / strike)."""
    model, time, mean = spec.model, spec.expiry, forward(spec)
    assert isinstance(model, Heston)
    variance = mean_variance(model, time)
    if mean <= 0.0 or strike <= 0.0 or variance <= 0.0 or model.xi == 0.0:
        return 0.0, 0.0
    level, slope = _difference(model, time, log(mean / strike), variance)
    return level / pi, slope / pi


def _difference(model: Heston, time: float, k: float, variance: float) -> tuple[float, float]:
    """The integral over u > 0 of Re exp(i u k) (heston - lognormal) / (u^2 + 1/4), and its slope in k.

    The difference decays at both ends; panels widen away from 0, and end where nothing more is added beyond
    the place where the lognormal law begins to fall.
    """
    skew = abs(model.rho) / model.xi * (model.v0 + model.kappa * model.theta * time)
    # skew is the phase's slope far out; where the law is near lognormal, that is beyond all that counts
    turning = abs(k) + min(skew, 4.0 * sqrt(variance))
    longest = 12.0 / (turning + min(1e-3, sqrt(variance)))
    level, slope, start, width, size = 0.0, 0.0, 0.0, min(0.5, longest), 0.0
    for _ in range(_MOST_PANELS):
        half, size = 0.5 * width, 0.0
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
        if size * start < _SMALL and start * start * variance > 1.0:
            break
    if size * start > _LARGEST_REST:
        raise UnknownError("the integral of the characteristic function does not end within its panels")
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
