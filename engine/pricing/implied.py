"""Implied volatilities: of European options by Black's or Bachelier's formula, of digitals by Black's."""

from __future__ import annotations

from math import exp, inf, log, sqrt

from engine.pricing.numerics.implied import bachelier_deviation, black_deviation
from engine.pricing.numerics.normal import cdf, density, quantile
from engine.pricing.result import ImpliedVolResult
from engine.pricing.spec import Spec, SpecError, describe
from engine.pricing.spec.products import ImpliedVol

_EPSILON = 2.0**-53


def implied_vol(spec: Spec) -> ImpliedVolResult:
    """The volatility at which the option of an ``implied_vol`` request has its price.

    SpecError, with the bounds, for a price that no volatility gives.
    """
    product, market, time = spec.product, spec.market, spec.expiry
    if not isinstance(product, ImpliedVol):
        raise SpecError("instrument", spec.instrument, "must be implied_vol")
    if time == 0.0:
        raise SpecError("T", time, "must be greater than 0 for an implied volatility")
    spot = market.escrowed(time) if market.dividends else spec.spot
    mean, discount = spot * exp(market.carry(0, 0.0, time)), market.discount(time)
    if product.formula == "bachelier":
        if product.option == "digital":
            raise SpecError("formula", product.formula, "must be black for a digital")
        return _bachelier(spec, product, mean, discount)
    if mean <= 0.0:
        raise SpecError("S", spec.spot, "must be greater than 0 for an implied volatility")
    if product.strike <= 0.0:
        raise SpecError("K", product.strike, "must be greater than 0 for an implied volatility")
    if product.option == "digital":
        return _digital(spec, product, mean, discount)
    return _black(spec, product, mean, discount)


def _black(spec: Spec, product: ImpliedVol, mean: float, discount: float) -> ImpliedVolResult:
    strike, sign = product.strike, 1.0 if product.type == "call" else -1.0
    low = max(sign * (mean - strike), 0.0)
    high = mean if product.type == "call" else strike
    bounds = (discount * low, discount * high)
    undiscounted = _within(product, discount, bounds)
    scale, x = sqrt(mean * strike), -abs(log(mean / strike))
    value = (undiscounted - low) / scale
    if value <= 0.0:
        return _result(spec, [0.0], 0.0, bounds)
    s = black_deviation(x, min(value, exp(0.5 * x) * (1.0 - _EPSILON)))
    vega = scale * density(x / s) * exp(-0.125 * s * s)
    return _result(spec, [s], _EPSILON * undiscounted / (vega * s), bounds)


def _within(product: ImpliedVol, discount: float, bounds: tuple[float, float]) -> float:
    """The undiscounted price. SpecError where it breaks its bounds; the lower one may be met."""
    price = product.price
    if price < bounds[0] * (1.0 - 4.0 * _EPSILON):
        rule = f"must be at least {bounds[0]:.10g}, the least that it can be worth without arbitrage"
        raise SpecError("price", price, rule)
    if price >= bounds[1] * (1.0 - 4.0 * _EPSILON):
        rule = f"must be less than {bounds[1]:.10g}, the most that it can be worth without arbitrage"
        raise SpecError("price", price, rule)
    return price / discount


def _bachelier(spec: Spec, product: ImpliedVol, mean: float, discount: float) -> ImpliedVolResult:
    sign = 1.0 if product.type == "call" else -1.0
    distance = mean - product.strike
    low = max(sign * distance, 0.0)
    bounds = (discount * low, inf)
    undiscounted = _within(product, discount, bounds)
    value = undiscounted - low
    if value <= 0.0:
        return _result(spec, [0.0], 0.0, bounds)
    s = bachelier_deviation(abs(distance), value)
    return _result(spec, [s], _EPSILON * undiscounted / (density(distance / s) * s), bounds)


def _digital(spec: Spec, product: ImpliedVol, mean: float, discount: float) -> ImpliedVolResult:
    """P(in the money) = cdf(sign d2) is a quadratic equation in s: s^2 + 2 z s - 2 x = 0, z the quantile."""
    sign, x = 1.0 if product.type == "call" else -1.0, log(mean / product.strike)
    most = discount * product.payout
    turn = most * cdf(-sign * sqrt(-2.0 * x)) if x < 0.0 else 0.0
    rises = product.type == "call" and x < 0.0
    bounds = (turn if product.type == "put" else 0.0, turn if rises else most)
    if not 0.0 < product.price < most or not bounds[0] <= product.price <= bounds[1]:
        rule = f"must lie between {bounds[0]:.10g} and {bounds[1]:.10g}, all that any volatility gives"
        raise SpecError("price", product.price, rule)
    z = sign * quantile(product.price / most)
    square = max(z * z + 2.0 * x, 0.0)
    found = sorted({s for s in (-z - sqrt(square), -z + sqrt(square)) if s > 0.0})
    if not found:
        rule = f"must lie between {bounds[0]:.10g} and {bounds[1]:.10g}, all that any volatility gives"
        raise SpecError("price", product.price, rule)
    accuracy = _EPSILON * product.price / (most * density(z) * max(sqrt(square), 1e-300))
    return _result(spec, found, accuracy, bounds)


def _result(
    spec: Spec, deviations: list[float], accuracy: float, bounds: tuple[float, float]
) -> ImpliedVolResult:
    product = spec.product
    assert isinstance(product, ImpliedVol)
    roots = tuple(s / sqrt(spec.expiry) for s in deviations)
    several = f"{len(roots)} volatilities give this price; the lowest is returned"
    return ImpliedVolResult(
        value=roots[0],
        accuracy=max(accuracy, _EPSILON),
        roots=roots,
        bounds=bounds,
        formula=product.formula,
        spec=describe(spec),
        hash=spec.hash(),
        warnings=() if len(roots) == 1 else (several,),
    )
