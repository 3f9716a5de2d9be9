"""What each product pays on a path, discounted to today: float[blocks, paths].

``SMOOTH`` says where a payoff is Lipschitz in the path, so that it may be differentiated along it. Barriers
watched always are: the probability that a bridge between two dates touched the level takes the place of the
event (barriers.py).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from engine.pricing.montecarlo import barriers
from engine.pricing.montecarlo.custom import custom
from engine.pricing.montecarlo.draws import normal_cdf
from engine.pricing.montecarlo.exercise import exercised
from engine.pricing.montecarlo.folds import Dates, Fold, How
from engine.pricing.montecarlo.grid import grid_of, pays_at_hit
from engine.pricing.montecarlo.paths import Path
from engine.pricing.spec import BlackScholes, Heston, Spec
from engine.pricing.spec import products as p
from engine.tensor import Tensor, where

Payoff = Callable[[Path, Any], Tensor]


def payoff(path: Path) -> Tensor:
    """The discounted payoff of the request's product."""
    product = path.numbers.spec.product
    return _PAYOFFS[type(product)](path, product)


def folds_of(spec: Spec) -> tuple[Fold, ...] | None:
    """What a payoff takes from the dates on the way; None where it takes more than such folds."""
    match spec.product:
        case p.Asian(averaging=averaging):
            return (FIXINGS[averaging.kind],)
        case (p.Barrier() | p.DoubleBarrier() | p.Touch()) as own if barriers.sees_each_date(
            spec
        ) and not pays_at_hit(own):
            return (barriers.survival_of(own),)
        case p.Lookback() as own if own.monitoring.times is not None and barriers.sees_each_date(spec):
            return (barriers.EXTREMES[own.of_maximum],)
        case p.VarianceSwap(monitoring=monitoring) if monitoring.times is not None:
            return (SQUARES,)
    return None


def at_expiry(path: Path) -> Tensor:
    """Today's value of 1 at expiry."""
    return path.discount("expiry", lambda spec: spec.expiry)


def option(path: Path, kind: str, value: Tensor, strike: Tensor) -> Tensor:
    """max(value - strike, 0) for a call, the opposite for a put."""
    return (value - strike if kind == "call" else strike - value).relu()


def strike(path: Path) -> Tensor:
    return path.number("strike", lambda spec: spec.product.strike)  # type: ignore[attr-defined]


# ---- at expiry


def european(path: Path, product: p.European) -> Tensor:
    return at_expiry(path) * option(path, product.type, path.last(), strike(path))


def digital(path: Path, product: p.Digital) -> Tensor:
    last = path.last()
    inside = last > strike(path) if product.type == "call" else last < strike(path)
    paid = path.number("payout", lambda spec: spec.product.payout)  # type: ignore[attr-defined]
    amount = paid * last if product.pays == "asset" else paid.broadcast_to(*last.shape)
    return at_expiry(path) * where(inside, amount, 0.0)


def gap(path: Path, product: p.Gap) -> Tensor:
    last = path.last()
    level = path.number("trigger", lambda spec: spec.product.trigger)  # type: ignore[attr-defined]
    inside = last > level if product.type == "call" else last < level
    gain = last - strike(path) if product.type == "call" else strike(path) - last
    return at_expiry(path) * where(inside, gain, 0.0)


def quanto(path: Path, product: p.Quanto) -> Tensor:
    """Under the domestic measure a foreign asset drifts at r_foreign - q - rho vol vol_fx (Reiner 1992)."""
    number = path.number

    def difference(spec: Spec) -> float:
        own: Any = spec.product
        return float(own.foreign_rate) * spec.expiry - spec.market.rate.integral(0.0, spec.expiry)

    drift = number("quanto drift", difference)
    link = number("quanto link", lambda spec: spec.product.fx_correlation * spec.product.fx_vol)  # type: ignore[attr-defined]
    time = number("quanto time", lambda spec: spec.expiry)
    vol = number("quanto vol", lambda spec: spec.market.vols[0].integral(0.0, spec.expiry))
    shift, later, rate = path.shifts.get("vol"), path.shifts.get("time"), path.shifts.get("rate")
    if shift is not None:
        vol = vol + shift * time
    drift = drift - link * vol
    if rate is not None:
        drift = drift - rate * time
    if later is not None:
        gap_now = number("quanto gap", lambda spec: spec.product.foreign_rate - spec.market.rate.values[0])  # type: ignore[attr-defined]
        vol_now = number("quanto vol now", lambda spec: spec.market.vols[0].values[0])
        drift = drift + later * (gap_now - link * vol_now)
    grown = drift.exp()
    last = path.last() * (grown.squeeze(1) if grown.ndim == 3 else grown)
    rate_fixed = number("fx", lambda spec: spec.product.fx)  # type: ignore[attr-defined]
    return at_expiry(path) * rate_fixed * option(path, product.type, last, strike(path))


# ---- along the path


def asian(path: Path, product: p.Asian) -> Tensor:
    average = averaged(path, product.averaging.kind)
    if product.strike is None:
        gain = path.last() - average if product.type == "call" else average - path.last()
        return at_expiry(path) * gain.relu()
    return at_expiry(path) * option(path, product.type, average, strike(path))


def averaged(path: Path, kind: str) -> Tensor:
    """The arithmetic or geometric mean of a request's fixings, [blocks, paths]."""
    averaging: Any = path.numbers.spec.product.averaging  # type: ignore[attr-defined]
    begin = path.start[0] if kind == "moving geometric" else path.seen_start()
    begin = begin.exp() if kind == "arithmetic" else begin
    begin = begin.squeeze(1) if begin.ndim == 3 else begin
    total = path.over_dates(FIXINGS[kind])
    if averaging.times is None or 0.0 in averaging.times:
        total = total + begin * path.number("fixing weight today", lambda spec: _weights(spec)[0])
    if averaging.past_count > 0.0:
        total = total + path.number("past share", _past_share)
    return total if kind == "arithmetic" else total.exp()


def _fixed(value: Callable[[Dates], Tensor]) -> Callable[[Dates], Tensor]:
    return lambda at: value(at) * at.column("fixing weights", lambda spec: _weights(spec)[1:])


FIXINGS = {
    "arithmetic": Fold("arithmetic mean", _fixed(lambda at: at.spot), How.SUM),
    "geometric": Fold("geometric mean", _fixed(lambda at: at.seen), How.SUM),
    "moving geometric": Fold("geometric mean of what moves", _fixed(lambda at: at.log), How.SUM),
}


def _weights(spec: Spec) -> list[float]:
    """What today's spot and that of each date weigh in the mean; a continuous one is made of trapezoids."""
    averaging: Any = spec.product.averaging  # type: ignore[attr-defined]
    times = grid_of(spec).contract
    if averaging.times is not None:
        fixed = set(averaging.times)
        share = 1.0 / averaging.count
        return [share * (0.0 in fixed), *[share * (time in fixed) for time in times]]
    span = averaging.past_count + spec.expiry
    ends = [0.0, *times]
    widths = [0.0, *[b - a for a, b in pairwise(ends)], 0.0]
    return [(a + b) / (2.0 * span) for a, b in pairwise(widths)]


def _past_share(spec: Spec) -> float:
    averaging: Any = spec.product.averaging  # type: ignore[attr-defined]
    whole = averaging.count if averaging.times is not None else averaging.past_count + spec.expiry
    return float(averaging.past_sum / whole)


def lookback(path: Path, product: p.Lookback) -> Tensor:
    extreme = barriers.extreme(path, product.of_maximum)
    if product.strike is not None:
        return at_expiry(path) * option(path, product.type, extreme, strike(path))
    gain = path.last() - extreme if product.type == "call" else extreme - path.last()
    return at_expiry(path) * gain


def forward_start(path: Path, product: p.ForwardStart) -> Tensor:
    alpha = path.number("alpha", lambda spec: spec.product.alpha)  # type: ignore[attr-defined]
    base = path.at(0) if len(path.times) > 1 else path.today()
    if product.start == path.numbers.spec.expiry:
        base = path.last()
    return at_expiry(path) * option(path, product.type, path.last(), alpha * base)


def cliquet(path: Path, product: p.Cliquet) -> Tensor:
    number = path.number
    ends = [place for place, time in enumerate(path.times) if time in product.resets.times]
    begin, seen = path.seen_start(), path.seen_logs()
    logs = [begin.squeeze(1) if begin.ndim == 3 else begin]
    total: Tensor | None = None
    for place in ends:
        logs.append(seen[:, place])
        gain = (logs[-1] - logs[-2]).expm1()
        if product.cap is not None:
            gain = gain.minimum(number("cap", lambda spec: spec.product.cap))  # type: ignore[attr-defined]
        if product.floor is not None:
            gain = gain.maximum(number("floor", lambda spec: spec.product.floor))  # type: ignore[attr-defined]
        total = gain if total is None else total + gain
    assert total is not None
    if product.global_cap is not None:
        total = total.minimum(number("global cap", lambda spec: spec.product.global_cap))  # type: ignore[attr-defined]
    if product.global_floor is not None:
        total = total.maximum(number("global floor", lambda spec: spec.product.global_floor))  # type: ignore[attr-defined]
    return at_expiry(path) * number("notional", lambda spec: spec.product.notional) * total  # type: ignore[attr-defined]


SQUARES = Fold("squared returns", lambda at: _square(at.seen - at.seen_before), How.SUM)


def _square(x: Tensor) -> Tensor:
    return x * x


def variance_swap(path: Path, product: p.VarianceSwap) -> Tensor:
    if product.monitoring.times is None and isinstance(path.numbers.spec.model, BlackScholes | Heston):
        gathered = path.variance[0] + path.logs[0] * 0.0  # the integral itself
        total = gathered.sum(1)
    else:
        total = path.over_dates(SQUARES)
    expiry, later = path.number("expiry", lambda spec: spec.expiry), path.shifts.get("time")
    spread = total / (expiry if later is None else expiry + later.squeeze(1))
    notional = path.number("notional", lambda spec: spec.product.notional)  # type: ignore[attr-defined]
    return at_expiry(path) * notional * (spread - strike(path))


def autocallable(path: Path, product: p.Autocallable) -> Tensor:
    number = path.number
    observed = product.observations.times
    dates = [(observed.index(time) + 1, place) for place, time in enumerate(path.times) if time in observed]
    notional = number("notional", lambda spec: spec.product.notional)  # type: ignore[attr-defined]
    level = number("call level", lambda spec: spec.product.call_level)  # type: ignore[attr-defined]
    coupon = number("coupon", lambda spec: spec.product.coupon)  # type: ignore[attr-defined]
    protection = number("protection", lambda spec: spec.product.protection)  # type: ignore[attr-defined]
    reference = number("reference", lambda spec: spec.product.reference)  # type: ignore[attr-defined]
    last = path.last()
    paid = at_expiry(path) * where(last >= protection, notional, notional * last / reference)
    for count, place in reversed(dates):
        discount = path.discount(f"date {place}", lambda spec, place=place: grid_of(spec).contract[place])  # type: ignore[misc]
        called = path.at(place) >= level
        paid = where(called, discount * notional * (coupon * float(count) + 1.0), paid)
    if observed[0] == 0.0:
        paid = where(path.today() >= level, notional * (coupon + 1.0), paid)
    return paid


# ---- options on options, by the value of what they turn into


def _end(spec: Spec) -> float:
    return grid_of(spec).contract[-1]


def _black(
    path: Path, kind: str, date: Callable[[Spec], float], strike_of: Callable[[Spec], float]
) -> Tensor:
    """The value at ``date`` of a European option that ends at T, of the asset there (Black-Scholes)."""
    number = path.number
    spot = path.moving_at(len(path.times) - 1)

    def over(integral: Callable[[Spec, float, float], float]) -> Callable[[Spec], float]:
        return lambda spec: integral(spec, date(spec), spec.expiry)

    total = number("rest variance", over(lambda spec, a, b: spec.market.variance(0, a, b)))
    growth = number("rest yield", over(lambda spec, a, b: spec.market.yields[0].integral(a, b)))
    interest = number("rest rate", over(lambda spec, a, b: spec.market.rate.integral(a, b)))
    span = number("rest", over(lambda spec, a, b: b - a))
    vol, rate, dividend = (path.shifts.get(kind) for kind in ("vol", "rate", "yield"))
    if vol is not None:
        vol = vol.squeeze(1)
        twice = number("rest twice vol", over(lambda spec, a, b: 2.0 * spec.market.vols[0].integral(a, b)))
        total = total + vol * twice + vol * vol * span
    if rate is not None:
        interest = interest + rate.squeeze(1) * span
    if dividend is not None:
        growth = growth + dividend.squeeze(1) * span
    below = number("rest strike", strike_of)
    deviation = total.sqrt()
    d1 = ((spot / below).log() + interest - growth) / deviation + deviation * 0.5
    d2 = d1 - deviation
    asset, cash = spot * (-growth).exp(), below * (-interest).exp()
    if kind == "call":
        return asset * normal_cdf(d1) - cash * normal_cdf(d2)
    return cash * normal_cdf(-d2) - asset * normal_cdf(-d1)


def chooser(path: Path, product: p.Chooser) -> Tensor:
    def strike_of(spec: Spec) -> float:
        return float(spec.product.strike)  # type: ignore[attr-defined]

    if product.choice in (0.0, path.numbers.spec.expiry):  # nothing is left to wait for, or nothing to choose
        last = path.last()
        return at_expiry(path) * (last - strike(path)).abs()
    call, put = (_black(path, kind, _end, strike_of) for kind in ("call", "put"))
    return path.discount("choice", _end) * call.maximum(put)


def compound(path: Path, product: p.Compound) -> Tensor:
    if product.start == path.numbers.spec.expiry:
        below = path.number("daughter strike", lambda spec: spec.product.daughter_strike)  # type: ignore[attr-defined]
        value = option(path, product.daughter, path.last(), below)
    else:
        value = _black(path, product.daughter, _end, lambda spec: spec.product.daughter_strike)  # type: ignore[attr-defined]
    price = path.number("mother strike", lambda spec: spec.product.mother_strike)  # type: ignore[attr-defined]
    return path.discount("mother", _end) * option(path, product.mother, value, price)


# ---- several assets


def basket(path: Path, product: p.Basket) -> Tensor:
    return at_expiry(path) * option(path, product.type, mean_of(path, product.mean), strike(path))


def mean_of(path: Path, kind: str) -> Tensor:
    """The weighted mean of the assets at the end, [blocks, paths]."""

    def weight(asset: int) -> Callable[[Spec], float]:
        return lambda spec: weights_of(spec)[asset]

    assets = range(path.numbers.spec.market.assets)
    parts = [path.logs[a][:, len(path.times) - 1] if kind == "geometric" else path.last(a) for a in assets]
    total = parts[0] * path.number("weight 0", weight(0))
    for asset in assets[1:]:
        total = total + parts[asset] * path.number(f"weight {asset}", weight(asset))
    return total.exp() if kind == "geometric" else total


def weights_of(spec: Spec) -> tuple[float, ...]:
    """The weights of a basket, equal ones where none are given."""
    product: Any = spec.product
    n = spec.market.assets
    return tuple(product.weights or (1.0 / n,) * n)


def spread(path: Path, product: p.Spread) -> Tensor:
    return at_expiry(path) * option(path, product.type, path.last(0) - path.last(1), strike(path))


def exchange(path: Path, product: p.Exchange) -> Tensor:
    return at_expiry(path) * (path.last(0) - path.last(1)).relu()


def best_of(path: Path, product: p.BestOf) -> Tensor:
    return at_expiry(path) * option(path, product.type, _extreme_asset(path, Tensor.maximum), strike(path))


def worst_of(path: Path, product: p.WorstOf) -> Tensor:
    return at_expiry(path) * option(path, product.type, _extreme_asset(path, Tensor.minimum), strike(path))


def _extreme_asset(path: Path, pick: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    found = path.last(0)
    for asset in range(1, len(path.logs)):
        found = pick(found, path.last(asset))
    return found


_PAYOFFS: dict[type[p.Product], Payoff] = {
    p.European: european,
    p.Digital: digital,
    p.Gap: gap,
    p.Quanto: quanto,
    p.Touch: barriers.touch,
    p.Asian: asian,
    p.Barrier: barriers.barrier,
    p.DoubleBarrier: barriers.barrier,
    p.Lookback: lookback,
    p.ForwardStart: forward_start,
    p.Cliquet: cliquet,
    p.Chooser: chooser,
    p.Compound: compound,
    p.Autocallable: autocallable,
    p.VarianceSwap: variance_swap,
    p.Custom: custom,
    p.American: exercised,
    p.Bermudan: exercised,
    p.MaxCall: exercised,
    p.Basket: basket,
    p.Spread: spread,
    p.Exchange: exchange,
    p.BestOf: best_of,
    p.WorstOf: worst_of,
}
