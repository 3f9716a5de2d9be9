"""Control variates: a payoff of the same paths whose value is known, chosen by the product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any

from engine.pricing.analytic.exact import exact
from engine.pricing.montecarlo import payoffs, smoothed
from engine.pricing.montecarlo.dividends import worth_of
from engine.pricing.montecarlo.folds import Fold
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.paths import Path
from engine.pricing.montecarlo.smoothing import is_smoothed
from engine.pricing.montecarlo.tilt import is_tilted, is_wide
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec import products as p
from engine.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Control:
    """``payoff`` of a path, [blocks, paths], and its exact mean with the Greeks that are known of it."""

    name: str
    payoff: Callable[[Path], Tensor]
    mean: Callable[[Spec, Sequence[str]], Mapping[str, float]]
    """By the names of the answer; ``price`` is the mean itself."""
    folds: tuple[Fold, ...] = ()
    """What the payoff takes from the dates on the way."""


def control_of(spec: Spec) -> Control | None:
    """The control of a request; None where nothing known resembles its payoff."""
    if spec.simulation is not None and spec.simulation.control_variate == "none":
        return None
    if is_tilted(spec) or is_wide(spec):
        return None
    if is_smoothed(spec):
        return _smoothed_control(spec)
    if not isinstance(spec.model, BlackScholes):
        return None if spec.market.assets > 1 else _forward_unless_short(spec)
    match spec.product:
        case p.Asian(averaging=averaging, strike=strike) if (
            averaging.kind == "arithmetic" and strike is not None
        ):
            is_new = averaging.past_count == 0.0 and averaging.times is not None
            if spec.market.dividends:
                return _MOVING_GEOMETRIC if is_new else _FORWARD
            return _GEOMETRIC if is_new else _FORWARD
        case p.American() | p.Bermudan() if not spec.market.dividends or _end(spec) == spec.expiry:
            return _EUROPEAN
        case p.Basket(mean="arithmetic", weights=weights) if weights is None or (
            abs(sum(weights) - 1.0) < 1e-9 and min(weights) > 0.0
        ):
            return _BASKET
    return None if spec.market.assets > 1 else _forward_unless_short(spec)


def _smoothed_control(spec: Spec) -> Control | None:
    """What the path without levels ends with: the plain option, or the asset."""
    if not isinstance(spec.product, p.Barrier | p.DoubleBarrier):
        return Control(_FORWARD.name, smoothed.control_payoff, _forward_mean)
    return Control("the plain option", smoothed.control_payoff, _known(_with_plain_option))


def _with_plain_option(spec: Spec) -> Spec:
    product: Any = spec.product
    return replace(spec, product=p.European(product.type, product.strike))


def _forward_unless_short(spec: Spec) -> Control | None:
    """What grows as the asset does: none for payoffs that do not depend on its level."""
    return None if isinstance(spec.product, p.Cliquet | p.VarianceSwap) else _FORWARD


# ---- what moves of the asset at the last simulated time


def _forward(path: Path) -> Tensor:
    return path.discount("end", _end) * path.moving_at(len(path.times) - 1)


def _end(spec: Spec) -> float:
    return grid_of(spec).times[-1]


def _forward_mean(spec: Spec, names: Sequence[str]) -> Mapping[str, float]:
    end = _end(spec)
    growth = exp(-spec.market.yields[0].integral(0.0, end))
    market = spec.market
    value = market.escrowed(spec.expiry) * growth
    worth = market.spots[0] * growth - value  # of dividends to come, which is less when they come later
    held = [d for d in market.dividends if d.time <= spec.expiry]
    known = {
        "price": value,
        "delta": growth,
        "div_rho": -end * value,
        "theta": market.yields[0].values[0] * value - market.rate.values[0] * worth,
        "rho": growth * sum(d.amount * market.discount(d.time) * d.time for d in held),
    }
    return {name: known.get(name, 0.0) for name in ("price", *names)}


_FORWARD = Control("the asset's forward", _forward, _forward_mean)


# ---- geometric means


def _geometric_asian(path: Path) -> Tensor:
    average = payoffs.averaged(path, "geometric")
    product: Any = path.numbers.spec.product
    return payoffs.at_expiry(path) * payoffs.option(path, product.type, average, payoffs.strike(path))


def _moving_geometric(path: Path) -> Tensor:
    """Of the asset less dividends to come: the arithmetic mean is that of it and of what these are worth."""
    product: Any = path.numbers.spec.product
    below = path.number("strike less dividends", _strike_less_dividends)
    average = payoffs.averaged(path, "moving geometric")
    return payoffs.at_expiry(path) * payoffs.option(path, product.type, average, below)


def _strike_less_dividends(spec: Spec) -> float:
    product: Any = spec.product
    times = product.averaging.times
    return float(product.strike - sum(worth_of(spec, time) for time in times) / len(times))


def _known_moving_geometric(spec: Spec, names: Sequence[str]) -> Mapping[str, float]:
    """But for what the rate and time do to dividends; nothing where these are worth more than the strike."""
    below = _strike_less_dividends(spec)
    if below <= 0.0:
        return {}
    market = replace(spec.market, spots=(spec.market.escrowed(spec.expiry),), dividends=())
    product: Any = spec.product
    averaging = replace(product.averaging, kind="geometric")
    alone = replace(spec, market=market, product=replace(product, averaging=averaging, strike=below))
    kept = tuple([greek for greek in spec.greeks if greek in _OF_WHAT_MOVES])
    return _known(lambda own: own)(replace(alone, greeks=kept), kept)


_OF_WHAT_MOVES = ("delta", "gamma", "vega", "vanna", "volga", "div_rho")
"""Greeks that are the same of the asset and of the asset less its dividends."""


def _geometric_basket(path: Path) -> Tensor:
    product: Any = path.numbers.spec.product
    mean = payoffs.mean_of(path, "geometric")
    return payoffs.at_expiry(path) * payoffs.option(path, product.type, mean, payoffs.strike(path))


def _european(path: Path) -> Tensor:
    product: Any = path.numbers.spec.product
    return path.discount("end", _end) * payoffs.option(path, product.type, path.last(), payoffs.strike(path))


def _with_last_exercise(spec: Spec) -> Spec:
    product: Any = spec.product
    return replace(spec, expiry=_end(spec), product=p.European(product.type, product.strike))


def _known(change: Callable[[Spec], Spec]) -> Callable[[Spec, Sequence[str]], Mapping[str, float]]:
    """The exact price and Greeks of the same request with another product; nothing where none is known."""

    def mean(spec: Spec, names: Sequence[str]) -> Mapping[str, float]:
        other = replace(change(spec), greeks=spec.greeks, simulation=None)
        found = exact(other, spec.greeks)
        if found is None:
            return {}
        greeks = {name: greek.value for name, greek in found.greeks.items() if greek.value is not None}
        return {"price": found.value, **greeks}

    return mean


def _with_geometric_average(spec: Spec) -> Spec:
    product: Any = spec.product
    return replace(spec, product=replace(product, averaging=replace(product.averaging, kind="geometric")))


def _with_geometric_basket(spec: Spec) -> Spec:
    return replace(spec, product=replace(spec.product, mean="geometric"))  # type: ignore[call-arg]


_GEOMETRIC = Control(
    "the geometric average",
    _geometric_asian,
    _known(_with_geometric_average),
    (payoffs.FIXINGS["geometric"],),
)
_MOVING_GEOMETRIC = Control(
    "the geometric average of the asset less dividends to come",
    _moving_geometric,
    _known_moving_geometric,
    (payoffs.FIXINGS["moving geometric"],),
)
_EUROPEAN = Control("the European option", _european, _known(_with_last_exercise))
_BASKET = Control("the geometric mean", _geometric_basket, _known(_with_geometric_basket))
