"""The dates at which a path is simulated: those of the contract, and steps between them where needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from engine.pricing.spec import BlackScholes, Curve, Displaced, MertonJumps, Monitoring, Spec
from engine.pricing.spec import products as p

FINE_STEPS = 256  # of a continuous average, which trapezoids replace
MODEL_STEPS_A_YEAR = 64  # of models whose steps are not exact
HIT_STEPS = 128  # where something is paid at a hit, which is taken to be in the middle of its step
EXERCISES = 50  # dates that stand for exercise at any time
EXACT_MODELS = (BlackScholes, MertonJumps, Displaced)  # steps of any length have the right law


@dataclass(frozen=True, slots=True)
class Grid:
    """``times`` are simulated, all after today; the contract sees those at the positions ``seen``."""

    times: tuple[float, ...]
    seen: tuple[int, ...]

    @property
    def starts(self) -> tuple[float, ...]:
        return (0.0, *self.times[:-1])

    @property
    def contract(self) -> tuple[float, ...]:
        """The times that the contract sees; the last one is the last of all."""
        return tuple([self.times[place] for place in self.seen])


@lru_cache(maxsize=256)
def grid_of(spec: Spec) -> Grid:
    """The grid of a contract that has not expired."""
    own = _contract_times(spec)
    extra: set[float] = set()
    if not isinstance(spec.model, EXACT_MODELS):
        least = max(int(MODEL_STEPS_A_YEAR * own[-1]), 16)
        extra |= set(_equal(own[-1], _steps(spec, least)))
    if spec.market.assets > 1:  # correlated steps need volatilities that are constant in each
        extra |= {t for vol in spec.market.vols for t in vol.until if t < own[-1]}
    times = sorted({*own, *extra})
    kept = [t for t in times if t in own or min(abs(t - date) for date in own) > 1e-9 * own[-1]]
    return Grid(tuple(kept), tuple(kept.index(date) for date in own))


def _contract_times(spec: Spec) -> tuple[float, ...]:
    rule = _DATES.get(type(spec.product), _at_expiry)
    return tuple(sorted({time for time in rule(spec) if time > 0.0}))


def _at_expiry(spec: Spec) -> tuple[float, ...]:
    return (spec.expiry,)


def _watched(spec: Spec) -> tuple[float, ...]:
    monitoring: Monitoring = spec.product.monitoring  # type: ignore[attr-defined]
    if monitoring.times is not None:
        return (*monitoring.times, spec.expiry)
    if pays_at_hit(spec.product):
        return _equal(spec.expiry, _steps(spec, HIT_STEPS))
    market = spec.market
    curves: tuple[Curve, ...] = (market.rate, *market.yields, *market.vols)
    exact = isinstance(spec.model, BlackScholes) and all(curve.is_constant for curve in curves)
    if isinstance(spec.product, p.Custom | p.VarianceSwap):
        return _equal(spec.expiry, _steps(spec, FINE_STEPS))
    changes = {t for curve in curves for t in curve.until if t < spec.expiry}
    return (*_equal(spec.expiry, _steps(spec, 1 if exact else HIT_STEPS)), *changes)


def pays_at_hit(product: p.Product) -> bool:
    """Whether something is paid when a level is touched."""
    match product:
        case p.Touch():
            return product.touch == "one" and product.timing == "hit"
        case p.Barrier() | p.DoubleBarrier():
            rule = product.barrier
            return rule.is_out and rule.rebate > 0.0 and rule.rebate_timing == "hit"
    return False


def _averaged(spec: Spec) -> tuple[float, ...]:
    averaging = spec.product.averaging  # type: ignore[attr-defined]
    if averaging.times is None:
        return _equal(spec.expiry, _steps(spec, FINE_STEPS))
    return (*averaging.times, spec.expiry)


def _steps(spec: Spec, usual: int) -> int:
    asked = spec.simulation.steps if spec.simulation else None
    return asked or usual


def _equal(expiry: float, steps: int) -> tuple[float, ...]:
    return tuple(expiry * (i + 1) / steps for i in range(steps))


def _exercised_always(spec: Spec) -> tuple[float, ...]:
    """Dates that stand for any time, and those just before dividends, where calls are exercised."""
    paid = tuple([d.time for d in spec.market.dividends if d.time <= spec.expiry])
    return (*_equal(spec.expiry, _steps(spec, EXERCISES)), *paid)


_DATES: dict[type[p.Product], Callable[[Spec], tuple[float, ...]]] = {
    p.Touch: _watched,
    p.Barrier: _watched,
    p.DoubleBarrier: _watched,
    p.Lookback: _watched,
    p.VarianceSwap: _watched,
    p.Custom: _watched,
    p.Asian: _averaged,
    p.ForwardStart: lambda spec: (spec.product.start, spec.expiry),  # type: ignore[attr-defined]
    p.Cliquet: lambda spec: (*spec.product.resets.times, spec.expiry),  # type: ignore[attr-defined]
    p.Chooser: lambda spec: (spec.product.choice or spec.expiry,),  # type: ignore[attr-defined]
    p.Compound: lambda spec: (spec.product.start or spec.expiry,),  # type: ignore[attr-defined]
    p.Autocallable: lambda spec: (*spec.product.observations.times, spec.expiry),  # type: ignore[attr-defined]
    p.American: _exercised_always,
    p.Bermudan: lambda spec: spec.product.exercise.times,  # type: ignore[attr-defined]
    p.MaxCall: lambda spec: spec.product.exercise.times,  # type: ignore[attr-defined]
}
