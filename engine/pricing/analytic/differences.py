"""Greeks as differences of a price that has no sampling error.

First and second derivatives are central differences of fourth order (five points). Their steps are small
parts of the scale on which the price bends, so that what is cut off and what is rounded both stay far below
1e-6 of the Greek. A step never reaches a barrier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import exp, log, sqrt

from engine.pricing.analytic.heston import mean_variance
from engine.pricing.analytic.method import Method, UnknownError
from engine.pricing.bump import NotMovableError, bumped
from engine.pricing.numerics.symmetric import eigen
from engine.pricing.result import UNITS, Greek
from engine.pricing.spec import Cev, Displaced, Heston, LocalVol, MertonJumps, Monitoring, Schedule, Spec
from engine.pricing.spec.products import (
    Barrier,
    BarrierLevel,
    Corridor,
    Digital,
    DoubleBarrier,
    Gap,
    Lookback,
    Quanto,
    Touch,
)

METHOD = "central differences, fourth order"
_PART = 0.006
_LEAST_DEVIATION = 0.01

Move = tuple[str, tuple[int, ...] | None]

MOVES: Mapping[str, tuple[str, ...]] = {
    "delta": ("spot",),
    "gamma": ("spot", "spot"),
    "vega": ("vol",),
    "theta": ("time",),
    "rho": ("rate",),
    "div_rho": ("yield",),
    "vanna": ("spot", "vol"),
    "volga": ("vol", "vol"),
    "dv0": ("v0",),
    "corr_sens": ("corr",),
}
"""Which parameters each Greek is a derivative in."""

_FIRST = ((1, 2.0 / 3.0), (2, -1.0 / 12.0))
_SECOND = ((1, 4.0 / 3.0), (2, -1.0 / 12.0))
_SECOND_AT_0 = -2.5
_WEIGHTS, _WEIGHTS_OF_TWO = 1.5, 5.4
"""Sizes of the weights together, of a first derivative and of a second one."""
_SMALL, _SMALL_OF_ALL = 1e-3, 1e-4
_ROUNDING = 1e-15
_LEAST_STEP = 1e-13
_JUMPING = (Barrier, Digital, DoubleBarrier, Gap, Touch)
"""Products whose price is steep beside a level: as much as the spot moves little."""


def expanded(spec: Spec, names: tuple[str, ...]) -> Iterator[tuple[str, str, tuple[int, ...] | None]]:
    """(name in the answer, Greek, assets) for the Greeks asked for: one for each asset or pair of several."""
    n = spec.market.assets
    for name in names:
        if name == "corr_sens":
            pairs = list(combinations(range(n), 2))
            for i, j in pairs:
                yield name if len(pairs) == 1 else f"{name}{i + 1}{j + 1}", name, (i, j)
        elif n == 1 or not {"spot", "vol", "yield"} & set(MOVES[name]):
            yield name, name, None
        else:
            for i in range(n):
                yield f"{name}{i + 1}", name, (i,)


def greeks(
    spec: Spec, names: tuple[str, ...], method: Method, formulas: Mapping[str, float]
) -> dict[str, Greek]:
    """The Greeks ``names``, by formula where there is one, else as differences.

    Null, with the reason as method, where the contract has no neighbour to compare with.
    """
    difference = _Difference(spec, method)
    found = {}
    for name, greek, assets in expanded(spec, names):
        if name in formulas:
            found[name] = Greek(formulas[name], "formula", UNITS[greek])
            continue
        try:
            if not method.is_smooth:
                raise NotMovableError(f"not offered by {method.name}")
            value = difference.of([(parameter, assets) for parameter in MOVES[greek]])
            found[name] = Greek(-value if greek == "theta" else value, METHOD, UNITS[greek])
        except (NotMovableError, UnknownError) as error:
            found[name] = Greek(None, str(error), UNITS[greek])
    return found


class _Difference:
    """Derivatives of ``price`` at ``spec``; prices at the same point are computed once."""

    def __init__(self, spec: Spec, method: Method) -> None:
        self._spec = spec
        self._method = method
        self._known: dict[tuple[tuple[Move, int], ...], float] = {}
        self._steps: dict[Move, float] = {}

    def of(self, moves: list[Move]) -> float:
        """The derivative. NotMovableError where the rounding of the prices hides it."""
        value = self._of(moves)
        self._require_more_than_rounding(value, moves)
        return value

    def _require_more_than_rounding(self, value: float, moves: list[Move]) -> None:
        """What rounding adds is small beside the value, or beside what such a Greek is where it matters."""
        size = max(abs(self._at(())), *(_units(self._spec) * spot for spot in self._spec.market.spots))
        s = min(1.0, max(life_deviation(self._spec, i) for i in range(self._spec.market.assets))) or 1.0
        steep = _ROUNDING / s if isinstance(self._spec.product, _JUMPING) else 0.0
        noise = (self._method.rounding + steep) * size * (_WEIGHTS if len(moves) == 1 else _WEIGHTS_OF_TWO)
        natural = size * s
        for move in moves:
            noise /= self._step(move)
            natural /= _scale_of(self._spec, move)
        if value != 0.0 and noise > max(_SMALL * abs(value), _SMALL_OF_ALL * natural):
            raise NotMovableError("lost in the rounding of prices: they differ by too little")

    def _of(self, moves: list[Move]) -> float:
        if len(moves) == 1:
            return self._first(moves[0], ())
        first, second = moves
        if first == second:
            h = self._step(first)
            total = _SECOND_AT_0 * self._at(())
            total += sum(w * (self._at(((first, k),)) + self._at(((first, -k),))) for k, w in _SECOND)
            return total / (h * h)
        h = self._step(second)
        ahead = sum(
            w * (self._first(first, ((second, k),)) - self._first(first, ((second, -k),))) for k, w in _FIRST
        )
        return ahead / h

    def _first(self, move: Move, others: tuple[tuple[Move, int], ...]) -> float:
        h = self._step(move)
        total = sum(w * (self._at(((move, k), *others)) - self._at(((move, -k), *others))) for k, w in _FIRST)
        return total / h

    def _step(self, move: Move) -> float:
        if move not in self._steps:
            self._steps[move] = _step_of(self._spec, move, self._method.step)
        return self._steps[move]

    def _at(self, steps: tuple[tuple[Move, int], ...]) -> float:
        if steps not in self._known:
            spec = self._spec
            for move, count in steps:
                spec = bumped(spec, move[0], count * self._step(move), move[1])
            self._known[steps] = self._method.price(spec)
        return self._known[steps]


# ---- steps


def _step_of(spec: Spec, move: Move, part: float) -> float:
    """The step of a parameter: a small part of its scale, ``part`` for spots."""
    parameter, assets = move
    asset = assets[0] if assets else 0
    s = life_deviation(spec, asset)
    if parameter == "spot":
        return _spot_step(spec, asset, s * part)
    if parameter == "vol":
        if not spec.market.vols:
            raise NotMovableError("the model has no single volatility")
        return _positive(_PART * spec.market.vols[asset].mean(spec.expiry), "the volatility is 0")
    if parameter == "time":
        return min(_PART * spec.expiry / max(1.0, _growth(spec)), 0.25 * min(_dates(spec)))
    if parameter == "v0":
        if not isinstance(spec.model, Heston):
            raise NotMovableError("the model has no variance today")
        return _positive(_PART * spec.model.v0, "the variance today is 0")
    if parameter == "corr":
        least = min(eigen(spec.market.correlation)[0])
        return _positive(_PART * min(1.0, least) if least > 1e-9 else 0.0, "the correlation is at its limit")
    wide = max(s, _LEAST_DEVIATION)
    return min(_PART * (min(wide, 10.0 * s) if s > 0.0 else wide) / spec.expiry, _PART)


def _growth(spec: Spec) -> float:
    """The largest of the logarithms by which discounting and yields grow, and of drifts in ten deviations."""
    market, end = spec.market, spec.expiry
    growths = [abs(curve.integral(0.0, end)) for curve in (market.rate, *market.yields)]
    pairs = ((abs(market.carry(i, 0.0, end)), life_deviation(spec, i)) for i in range(market.assets))
    return max(*growths, *(0.1 * drift / s for drift, s in pairs if s > 0.0))


def _scale_of(spec: Spec, move: Move) -> float:
    """How far a parameter moves for the price to change as it does with one deviation of the spot."""
    parameter, assets = move
    asset = assets[0] if assets else 0
    s = min(1.0, life_deviation(spec, asset)) or 1.0
    if parameter == "spot":
        return spec.market.spots[asset] * s
    if parameter == "vol":
        return spec.market.vols[asset].mean(spec.expiry)
    if parameter == "v0":
        return spec.model.v0 if isinstance(spec.model, Heston) else 1.0
    return {"time": spec.expiry, "corr": 1.0}.get(parameter, s / spec.expiry)


def _positive(step: float, reason: str) -> float:
    if step <= 0.0:
        raise NotMovableError(reason)
    return step


def _spot_step(spec: Spec, asset: int, s: float) -> float:
    spot = spec.market.spots[asset]
    bend = s * sqrt(min(_dates(spec)) / spec.expiry)
    if isinstance(spec.product, Lookback):  # a path that drifts away has its extreme near its start
        drift = abs(spec.market.carry(asset, 0.0, spec.expiry))
        bend *= min(1.0, life_deviation(spec, asset) / drift) if drift > 0.0 else 1.0
    room = min((abs(log(spot / level)) for level in _levels(spec) if level > 0.0), default=1.0)
    step = spot * min(bend, 0.25 * room, 0.05)
    if 0.0 < step < _LEAST_STEP * spot:
        raise NotMovableError("lost in the rounding of the spot: the price changes within it")
    return _positive(step, "the spot is 0, or at a barrier")


def _units(spec: Spec) -> float:
    """How many of the asset a contract is about."""
    product = spec.product
    if isinstance(product, Quanto):
        return product.fx
    return product.payout if isinstance(product, Digital) and product.pays == "asset" else 1.0


def _levels(spec: Spec) -> list[float]:
    """Levels at which the price itself has a bend, watched from today on."""
    product = spec.product
    if not isinstance(product, Barrier | DoubleBarrier | Lookback | Touch):
        return []
    if product.monitoring.times is not None and not product.monitoring.include_t0:
        return []
    if isinstance(product, Lookback):
        known = [level for level in (product.extreme, product.strike) if level is not None]
        pick = max if product.of_maximum else min
        return [pick(known)] if known and pick(known) != spec.spot else []
    if isinstance(product, Touch):
        return [product.level]
    levels: BarrierLevel | Corridor = product.barrier
    return [levels.level] if isinstance(levels, BarrierLevel) else [levels.lower, levels.upper]


def _dates(spec: Spec) -> list[float]:
    """Times after today at which something is decided or fixed, expiry included."""
    product = spec.product
    dates = [spec.expiry]
    for name in product.__dataclass_fields__:
        value = getattr(product, name)
        if isinstance(value, Monitoring | Schedule) and value.times:
            dates.append(value.times[0])
        elif name in ("start", "choice"):
            dates.append(value)
    return [date for date in dates if date > 0.0]


def life_deviation(spec: Spec, asset: int = 0) -> float:
    """About the standard deviation of the log return to expiry."""
    time, model = spec.expiry, spec.model
    if isinstance(model, Heston):
        return sqrt(mean_variance(model, time))
    spot = max(spec.market.spots[asset], 1e-300)
    if isinstance(model, Cev):
        return model.scale * exp((model.beta - 1.0) * log(spot)) * sqrt(time)
    if isinstance(model, LocalVol):
        return max(model.vols[0]) * sqrt(time)
    variance = spec.market.variance(asset, 0.0, time)
    if isinstance(model, MertonJumps):
        variance += model.intensity * time * (model.mean**2 + model.deviation**2)
    if isinstance(model, Displaced):
        return sqrt(variance) * abs(1.0 + model.shift / spot)
    return sqrt(variance)
