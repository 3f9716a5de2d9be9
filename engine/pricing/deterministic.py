"""Contracts whose paths are certain: at expiry, without volatility, or on a spot of 0.

The spot then follows its forward, and the price is the discounted payoff on that path. The functions below
are the payoffs of all products on one path, so they also tell what a simulated payoff must be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, log

from engine.pricing.spec import BlackScholes, Cev, Curve, Displaced, Heston, LocalVol, MertonJumps, Spec
from engine.pricing.spec import products as p
from engine.pricing.spec.schedule import Monitoring


def is_deterministic(spec: Spec) -> bool:
    """Whether nothing about the assets is random up to expiry, or today is the only date of exercise."""
    if isinstance(spec.product, p.Bermudan | p.MaxCall) and spec.product.exercise.times[-1] == 0.0:
        return True
    if spec.expiry == 0.0 or not any(spec.market.spots):
        return True
    if spec.market.dividends and spec.market.escrowed(spec.expiry) == 0.0:  # they are all that there is
        return True
    model, end = spec.model, spec.expiry
    if isinstance(model, Heston):
        return model.v0 == 0.0 and (model.kappa * model.theta == 0.0)
    if isinstance(model, Cev):
        return model.scale == 0.0
    if isinstance(model, LocalVol):
        return not any(map(any, model.vols))
    if isinstance(model, MertonJumps) and model.intensity * (model.mean**2 + model.deviation**2) > 0.0:
        return False
    assert isinstance(model, BlackScholes | MertonJumps | Displaced)
    return all(spec.market.variance(i, 0.0, end) == 0.0 for i in range(spec.market.assets))


@dataclass(frozen=True, slots=True)
class Path:
    """The forwards of a spec as a path."""

    spec: Spec

    def at(self, time: float, asset: int = 0, *, paying: bool = False) -> float:
        """The asset's spot at ``time``; escrowed dividends that are still to come are part of it, with
        ``paying`` those of that time too.
        """
        market, end = self.spec.market, self.spec.expiry
        growth = exp(market.carry(asset, 0.0, time))
        if not market.dividends:
            return market.spots[asset] * growth
        held = market.escrowed(end) * growth
        due = (d for d in market.dividends if time < d.time <= end or (paying and d.time == time))
        return held + sum(d.amount * market.discount(d.time) / market.discount(time) for d in due)

    def last(self, asset: int = 0) -> float:
        return self.at(self.spec.expiry, asset)

    def watched(self, monitoring: Monitoring) -> list[float]:
        """Times that decide about extremes: those watched, or all at which the path may turn."""
        if monitoring.times is not None:
            return ([0.0] if monitoring.include_t0 else []) + list(monitoring.times)
        return self.turns()

    def turns(self) -> list[float]:
        """Today, expiry, and the times between at which a rate changes or a dividend is paid."""
        market, end = self.spec.market, self.spec.expiry
        curves: list[Curve] = [market.rate, *market.yields]
        inner = {time for curve in curves for time in curve.until if time < end}
        inner.update(d.time for d in market.dividends if d.time < end)
        return sorted({0.0, *inner, end})

    def first_hit(self, monitoring: Monitoring, levels: list[tuple[float, bool]]) -> float | None:
        """When one of the levels (level, is_up) is first touched."""
        before = None
        for time in self.watched(monitoring):
            spot = self.at(time)
            for level, is_up in levels:
                if spot >= level if is_up else spot <= level:
                    if monitoring.times is None and before is not None:
                        return self._crossing(before, time, level)
                    return time
            before = time
        return None

    def _crossing(self, left: float, right: float, level: float) -> float:
        """Where the log path, a line between turns, passes the level."""
        low, high = self.at(left), self.at(right)
        if level <= 0.0 or low <= 0.0 or high <= 0.0 or low == high:
            return right
        return left + (right - left) * log(level / low) / log(high / low)


def intrinsic(kind: str, value: float, strike: float) -> float:
    """max(value - strike, 0) for a call, max(strike - value, 0) for a put."""
    return max(value - strike, 0.0) if kind == "call" else max(strike - value, 0.0)


def value(spec: Spec) -> float:
    """The price of a contract on a certain path."""
    return _VALUES[type(spec.product)](spec.product, Path(spec))


# ---- what ends at expiry: the payoff, discounted


def _discounted(payoff: Callable[[p.Product, Path], float]) -> Callable[[p.Product, Path], float]:
    def price(product: p.Product, path: Path) -> float:
        return path.spec.market.discount(path.spec.expiry) * payoff(product, path)

    return price


def _european(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.European)
    return intrinsic(product.type, path.last(), product.strike)


def _digital(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Digital)
    pays = path.last() > product.strike if product.type == "call" else path.last() < product.strike
    return product.payout * (path.last() if product.pays == "asset" else 1.0) if pays else 0.0


def _gap(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Gap)
    last = path.last()
    if product.type == "call":
        return last - product.strike if last > product.trigger else 0.0
    return product.strike - last if last < product.trigger else 0.0


def _quanto(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Quanto)
    market, end = path.spec.market, path.spec.expiry
    last = path.spec.spot * exp(product.foreign_rate * end - market.yields[0].integral(0.0, end))
    return product.fx * intrinsic(product.type, last, product.strike)


def _asian(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Asian)
    average = _average(product, path)
    if product.strike is None:
        return intrinsic(product.type, path.last(), average)
    return intrinsic(product.type, average, product.strike)


def _average(product: p.Asian, path: Path) -> float:
    averaging, end = product.averaging, path.spec.expiry
    is_geometric = averaging.kind == "geometric"
    if averaging.times is None:
        total, whole = averaging.past_sum, averaging.past_count + end
        if whole == 0.0:
            return path.spec.spot
        turns = path.turns()
        for left, right in pairwise(turns):
            low, high = path.at(left), path.at(right)
            total += (right - left) * _mean_of_exponential(low, high, is_geometric)
    else:
        spots = [path.at(time) for time in averaging.times]
        whole = averaging.count
        total = (
            averaging.past_sum + sum(_log(spot) for spot in spots)
            if is_geometric
            else averaging.past_sum + sum(spots)
        )
    return exp(total / whole) if is_geometric else total / whole


def _log(spot: float) -> float:
    return log(spot) if spot > 0.0 else -inf


def _mean_of_exponential(low: float, high: float, of_logs: bool) -> float:
    """The mean of a spot (or its logarithm) that grows steadily from ``low`` to ``high``."""
    if of_logs:
        return 0.5 * (_log(low) + _log(high))
    if low <= 0.0 or abs(high / low - 1.0) < 1e-8:
        return 0.5 * (low + high)
    return (high - low) / log(high / low)


def _lookback(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Lookback)
    seen = [path.at(time) for time in path.watched(product.monitoring)]
    if product.extreme is not None:
        seen.append(product.extreme)
    extreme = max(seen) if product.of_maximum else min(seen)
    if product.strike is None:
        return intrinsic(product.type, path.last(), extreme)
    return intrinsic(product.type, extreme, product.strike)


def _forward_start(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.ForwardStart)
    return intrinsic(product.type, path.last(), product.alpha * path.at(product.start))


def _cliquet(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Cliquet)
    total, before = 0.0, path.spec.spot
    for time in product.resets.times:
        spot = path.at(time)
        total += _clipped(spot / before - 1.0 if before > 0.0 else 0.0, product.floor, product.cap)
        before = spot
    return product.notional * _clipped(total, product.global_floor, product.global_cap)


def _clipped(value: float, floor: float | None, cap: float | None) -> float:
    value = value if cap is None else min(value, cap)
    return value if floor is None else max(value, floor)


def _chooser(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Chooser)
    return abs(path.last() - product.strike)


def _autocallable_value(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Autocallable)
    market = path.spec.market
    for i, time in enumerate(product.observations.times):
        if path.at(time) >= product.call_level:
            return market.discount(time) * product.notional * (1.0 + (i + 1) * product.coupon)
    last = path.last()
    share = 1.0 if last >= product.protection else last / product.reference
    return market.discount(path.spec.expiry) * product.notional * share


def _variance_swap(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.VarianceSwap)
    total = 0.0
    if product.monitoring.times is not None and path.spec.expiry > 0.0:
        spots = [path.spec.spot, *(path.at(time) for time in product.monitoring.times)]
        returns = [log(b / a) if a > 0.0 else 0.0 for a, b in pairwise(spots)]
        total = sum(r * r for r in returns) / path.spec.expiry
    return product.notional * (total - product.strike)


def _basket(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Basket)
    spots = [path.last(i) for i in range(path.spec.market.assets)]
    weights = product.weights or (1.0 / len(spots),) * len(spots)
    pairs = list(zip(weights, spots, strict=True))
    if product.mean == "arithmetic":
        return intrinsic(product.type, sum(w * s for w, s in pairs), product.strike)
    mean = exp(sum(w * _log(s) for w, s in pairs if w != 0.0))
    return intrinsic(product.type, mean, product.strike)


def _spread(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Spread)
    return intrinsic(product.type, path.last(0) - path.last(1), product.strike)


def _exchange(product: p.Product, path: Path) -> float:
    return max(path.last(0) - path.last(1), 0.0)


def _extreme_of_assets(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.BestOf | p.WorstOf)
    spots = [path.last(i) for i in range(path.spec.market.assets)]
    return intrinsic(
        product.type, max(spots) if isinstance(product, p.BestOf) else min(spots), product.strike
    )


# ---- what may end earlier


def _barrier_value(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Barrier)
    level = product.barrier
    hit = path.first_hit(product.monitoring, [(level.level, level.is_up)])
    return _lost_or_kept(product, path, hit)


def _double_barrier_value(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.DoubleBarrier)
    levels = product.barrier
    hit = path.first_hit(product.monitoring, [(levels.lower, False), (levels.upper, True)])
    return _lost_or_kept(product, path, hit)


def _lost_or_kept(product: p.Barrier | p.DoubleBarrier, path: Path, hit: float | None) -> float:
    market, end, terms = path.spec.market, path.spec.expiry, product.barrier
    if (hit is None) == terms.is_out:
        return market.discount(end) * intrinsic(product.type, path.last(), product.strike)
    at_hit = terms.is_out and terms.rebate_timing == "hit" and hit is not None
    return terms.rebate * market.discount(hit if at_hit and hit is not None else end)


def _touch_value(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Touch)
    market, end = path.spec.market, path.spec.expiry
    hit = path.first_hit(product.monitoring, [(product.level, product.direction == "up")])
    if product.touch == "no":
        return product.payout * market.discount(end) if hit is None else 0.0
    if hit is None:
        return 0.0
    return product.payout * market.discount(hit if product.timing == "hit" else end)


def _compound_value(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Compound)
    market = path.spec.market
    daughter = market.discount(path.spec.expiry) * intrinsic(
        product.daughter, path.last(), product.daughter_strike
    )
    cost = product.mother_strike * market.discount(product.start)
    return intrinsic(product.mother, daughter, cost)


def _american_value(product: p.Product, path: Path) -> float:
    """The best time is a turn of the path, or where the discounted payoff is level between two turns."""
    assert isinstance(product, p.American)
    market, turns = path.spec.market, path.turns()
    times = list(turns)
    for left, right in pairwise(turns):
        rate, dividend = market.rate.at(left), market.yields[0].at(left)
        gain = rate * product.strike
        loss = dividend * path.at(left)
        if gain * loss > 0.0 and rate != dividend:
            times.append(min(max(left + log(gain / loss) / (rate - dividend), left), right))
    return max(_exercised(product, path, time) for time in times)


def _bermudan_value(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.Bermudan)
    return max(_exercised(product, path, time) for time in product.exercise.times)


def _exercised(product: p.American | p.Bermudan, path: Path, time: float) -> float:
    """At any time is also just before a dividend is paid."""
    spot = path.at(time, paying=isinstance(product, p.American) and product.type == "call")
    return path.spec.market.discount(time) * intrinsic(product.type, spot, product.strike)


def _max_call_value(product: p.Product, path: Path) -> float:
    assert isinstance(product, p.MaxCall)
    market = path.spec.market
    return max(
        market.discount(time) * max(max(path.at(time, i) for i in range(market.assets)) - product.strike, 0.0)
        for time in product.exercise.times
    )


_VALUES: dict[type[p.Product], Callable[[p.Product, Path], float]] = {
    p.European: _discounted(_european),
    p.Digital: _discounted(_digital),
    p.Gap: _discounted(_gap),
    p.Quanto: _discounted(_quanto),
    p.Asian: _discounted(_asian),
    p.Lookback: _discounted(_lookback),
    p.ForwardStart: _discounted(_forward_start),
    p.Cliquet: _discounted(_cliquet),
    p.Chooser: _discounted(_chooser),
    p.VarianceSwap: _discounted(_variance_swap),
    p.Basket: _discounted(_basket),
    p.Spread: _discounted(_spread),
    p.Exchange: _discounted(_exchange),
    p.BestOf: _discounted(_extreme_of_assets),
    p.WorstOf: _discounted(_extreme_of_assets),
    p.Barrier: _barrier_value,
    p.DoubleBarrier: _double_barrier_value,
    p.Touch: _touch_value,
    p.Compound: _compound_value,
    p.Autocallable: _autocallable_value,
    p.American: _american_value,
    p.Bermudan: _bermudan_value,
    p.MaxCall: _max_call_value,
}
PRODUCTS = tuple(_VALUES)
"""Products that have a value here: all but custom payoffs."""
