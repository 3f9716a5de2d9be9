"""Barriers, double barriers and touches that are watched always, under constant rates and volatility."""

from __future__ import annotations

from math import exp, inf, isinf

from engine.pricing.analytic.black import black, forward
from engine.pricing.analytic.method import Method
from engine.pricing.analytic.passage import (
    Killed,
    discounted_hit,
    hit_probability,
    log_ratio,
    paid_at_hit,
)
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec.products import Barrier, DoubleBarrier, Touch


def is_constant(spec: Spec) -> bool:
    """Whether rate, yield and volatility are constant, and no cash dividend is paid."""
    market = spec.market
    curves = (market.rate, *market.yields, *market.vols)
    return all(curve.is_constant for curve in curves) and not market.dividends


def watched_always(spec: Spec) -> bool:
    """Whether monitoring is continuous and the market constant."""
    product = spec.product
    assert isinstance(product, Barrier | DoubleBarrier | Touch)
    return product.monitoring.kind == "continuous" and is_constant(spec)


def log_moments(spec: Spec) -> tuple[float, float]:
    """Mean and variance of the log return to expiry."""
    variance = spec.market.variance(0, 0.0, spec.expiry)
    return spec.market.carry(0, 0.0, spec.expiry) - 0.5 * variance, variance


def vanilla(spec: Spec, kind: str, strike: float) -> float:
    """The European option without the barrier."""
    variance = spec.market.variance(0, 0.0, spec.expiry)
    return spec.market.discount(spec.expiry) * black(kind, forward(spec), strike, variance**0.5)


def knocked_out(spec: Spec, kind: str, strike: float, lower: float, upper: float) -> float:
    """A call or put that is lost at either level (prices; 0 and inf are none), without rebate."""
    killed = _killed(spec, lower, upper)
    at = log_ratio(strike, spec.spot)
    low, high = (at, inf) if kind == "call" else (-inf, at)
    held = spec.spot * killed.between(low, high, 1.0)
    owed = strike * killed.between(low, high, 0.0)
    sign = 1.0 if kind == "call" else -1.0
    return max(spec.market.discount(spec.expiry) * sign * (held - owed), 0.0)


def knocked_in(spec: Spec, kind: str, strike: float, out: float) -> float:
    """A call or put that comes to life, from one that is lost at the same levels."""
    return max(vanilla(spec, kind, strike) - out, 0.0)


def _killed(spec: Spec, lower: float, upper: float) -> Killed:
    drift, variance = log_moments(spec)
    return Killed(drift, variance, log_ratio(lower, spec.spot), _log_upper(upper, spec.spot))


def _log_upper(level: float, spot: float) -> float:
    return inf if isinf(level) else log_ratio(level, spot)


def barrier(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, Barrier)
    level, market, time = product.barrier, spec.market, spec.expiry
    discount = market.discount(time)
    if (spec.spot >= level.level) if level.is_up else (spec.spot <= level.level):
        if not level.is_out:
            return vanilla(spec, product.type, product.strike)
        return level.rebate * (1.0 if level.rebate_timing == "hit" else discount)
    lower, upper = (0.0, level.level) if level.is_up else (level.level, inf)
    out = knocked_out(spec, product.type, product.strike, lower, upper)
    drift, variance = log_moments(spec)
    distance = log_ratio(level.level, spec.spot)
    if not level.is_out:
        missed = 1.0 - _hit(distance, drift, variance)
        return knocked_in(spec, product.type, product.strike, out) + level.rebate * discount * missed
    if level.rebate_timing == "expiry":
        return out + level.rebate * discount * _hit(distance, drift, variance)
    rate = market.rate.integral(0.0, time)
    return out + level.rebate * (0.0 if isinf(distance) else discounted_hit(distance, drift, variance, rate))


def _hit(distance: float, drift: float, variance: float) -> float:
    return 0.0 if isinf(distance) else hit_probability(distance, drift, variance)


def double_barrier(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, DoubleBarrier)
    levels, market, time = product.barrier, spec.market, spec.expiry
    discount = market.discount(time)
    if not levels.lower < spec.spot < levels.upper:
        if not levels.is_out:
            return vanilla(spec, product.type, product.strike)
        return levels.rebate * (1.0 if levels.rebate_timing == "hit" else discount)
    out = knocked_out(spec, product.type, product.strike, levels.lower, levels.upper)
    killed = _killed(spec, levels.lower, levels.upper)
    if not levels.is_out:
        inside = knocked_in(spec, product.type, product.strike, out)
        return inside + levels.rebate * discount * killed.survival()
    if levels.rebate == 0.0:
        return out
    if levels.rebate_timing == "expiry":
        return out + levels.rebate * discount * (1.0 - killed.survival())

    def hit_by(part: float) -> float:
        shorter = Killed(killed.drift * part, killed.variance * part, killed.lower, killed.upper)
        return 1.0 - shorter.survival()

    rate = market.rate.integral(0.0, time)
    at_hit = paid_at_hit(hit_by, rate, killed.drift, killed.variance, killed.lower, killed.upper)
    return out + levels.rebate * at_hit


def touch(spec: Spec) -> float:
    product = spec.product
    assert isinstance(product, Touch)
    rate = spec.market.rate.integral(0.0, spec.expiry)
    discount = exp(-rate)
    is_touched = spec.spot >= product.level if product.direction == "up" else spec.spot <= product.level
    if is_touched:
        if product.touch == "no":
            return 0.0
        return product.payout * (1.0 if product.timing == "hit" else discount)
    drift, variance = log_moments(spec)
    distance = log_ratio(product.level, spec.spot)
    chance = _hit(distance, drift, variance)
    if product.touch == "no":
        return product.payout * discount * (1.0 - chance)
    if product.timing == "expiry":
        return product.payout * discount * chance
    return product.payout * (0.0 if isinf(distance) else discounted_hit(distance, drift, variance, rate))


METHODS = (
    Method(
        Barrier,
        BlackScholes,
        "closed form",
        "Reiner, Rubinstein (1991): Breaking down the barriers; by images",
        barrier,
        watched_always,
    ),
    Method(
        DoubleBarrier,
        BlackScholes,
        "series",
        "Kunitomo, Ikeda (1992): Pricing options with curved boundaries; by images",
        double_barrier,
        watched_always,
    ),
    Method(
        Touch,
        BlackScholes,
        "closed form",
        "Rubinstein, Reiner (1991): Unscrambling the binary code",
        touch,
        watched_always,
    ),
)
