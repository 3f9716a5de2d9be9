"""What a price must satisfy whatever the model: bounds without arbitrage, and parities."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf

from engine.pricing.analytic.exact import exact
from engine.pricing.result import Check
from engine.pricing.spec import Spec
from engine.pricing.spec import products as p

_SLACK = 1e-9


def checks(spec: Spec, price: float, se: float = 0.0) -> tuple[Check, ...]:
    """The checks that apply to ``spec``; a simulated price may miss by four standard errors."""
    owed = spec.market.discount(spec.expiry) * (getattr(spec.product, "strike", None) or 0.0)
    slack = 4.0 * se + _SLACK * max(1.0, *spec.market.spots, owed)
    return (*_bounds(spec, price, slack), *_parity(spec, price, slack))


def _bounds(spec: Spec, price: float, slack: float) -> tuple[Check, ...]:
    low, high = bounds(spec)
    holds = low - slack <= price <= high + slack
    return (Check("bounds", holds, f"{low:.10g} <= {price:.10g} <= {high:.10g}"),)


def bounds(spec: Spec) -> tuple[float, float]:
    """The least and most that a contract can be worth under any model of these forwards."""
    product, market, end = spec.product, spec.market, spec.expiry
    discount = market.discount(end)
    spot = market.escrowed(end) if market.dividends else spec.spot
    held = discount * spot * exp(market.carry(0, 0.0, end))
    if isinstance(product, p.European):
        owed = discount * product.strike
        if product.type == "call":
            return max(held - owed, 0.0), held
        return max(owed - held, 0.0), owed
    if isinstance(product, p.American) and product.type == "put":
        return max(product.strike - spec.spot, discount * product.strike - held, 0.0), _most_of_cash(spec)
    if isinstance(product, p.Digital) and product.pays == "cash":
        return 0.0, discount * product.payout
    if isinstance(product, p.Gap | p.VarianceSwap | p.Custom | p.Cliquet):
        return -inf, inf
    return 0.0, inf


def _most_of_cash(spec: Spec) -> float:
    """The strike at the time at which it is worth most."""
    assert isinstance(spec.product, p.American)
    times = (0.0, *(t for t in spec.market.rate.until if t < spec.expiry), spec.expiry)
    return spec.product.strike * max(spec.market.discount(time) for time in times)


def _parity(spec: Spec, price: float, slack: float) -> tuple[Check, ...]:
    """Put-call parity of Europeans, in-out parity of barriers without rebate."""
    product, market, end = spec.product, spec.market, spec.expiry
    if isinstance(product, p.European):
        sign = 1.0 if product.type == "call" else -1.0
        turned = p.European("put" if product.type == "call" else "call", product.strike)
        other = exact(replace(spec, product=turned), ())
        if other is None:
            return ()
        low, _ = bounds(replace(spec, product=replace(product, type="call", strike=0.0)))
        forward = low - market.discount(end) * product.strike
        gap = sign * (price - other.value) - forward
        return (Check("put-call parity", abs(gap) <= slack, f"C - P - D (F - K) = {gap:.3g}"),)
    if isinstance(product, p.Barrier) and product.barrier.rebate == 0.0:
        other = exact(replace(spec, product=replace(product, barrier=product.barrier.turned())), ())
        plain = exact(replace(spec, product=p.European(product.type, product.strike)), ())
        if other is None or plain is None:
            return ()
        gap = price + other.value - plain.value
        return (Check("in-out parity", abs(gap) <= slack, f"in + out - plain = {gap:.3g}"),)
    return ()
