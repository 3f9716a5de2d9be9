"""Specs with one parameter moved: what numerical Greeks are differences of."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from engine.pricing.numerics.symmetric import Matrix
from engine.pricing.spec import Averaging, Curve, LocalVol, Monitoring, Schedule, Spec
from engine.pricing.spec.market import Dividend
from engine.pricing.spec.models import Heston

_TIMES_OF_PRODUCTS = ("start", "choice")


class NotMovableError(ValueError):
    """The contract has no neighbour in that direction: a date would cross today."""


def bumped(spec: Spec, parameter: str, by: float, assets: tuple[int, ...] | None = None) -> Spec:
    """``spec`` with ``parameter`` raised by ``by``, for the given assets or for all.

    Parameters: spot, vol, rate, yield (parallel moves of curves), time (all dates later), v0 (Heston's),
    corr (between two assets). NotMovableError where there is no such neighbour.
    """
    return _MOVES[parameter](spec, by, assets)


def _moved(values: tuple[Any, ...], by: float, assets: tuple[int, ...] | None) -> tuple[Any, ...]:
    chosen = range(len(values)) if assets is None else assets
    return tuple(_raise(value, by) if i in chosen else value for i, value in enumerate(values))


def _raise(value: float | Curve, by: float) -> float | Curve:
    return value.raised(by) if isinstance(value, Curve) else value + by


def _move_spot(spec: Spec, by: float, assets: tuple[int, ...] | None) -> Spec:
    return replace(spec, market=replace(spec.market, spots=_moved(spec.market.spots, by, assets)))


def _move_vol(spec: Spec, by: float, assets: tuple[int, ...] | None) -> Spec:
    if not spec.market.vols:
        raise NotMovableError("the model has no single volatility")
    return replace(spec, market=replace(spec.market, vols=_moved(spec.market.vols, by, assets)))


def _move_rate(spec: Spec, by: float, assets: tuple[int, ...] | None) -> Spec:
    return replace(spec, market=replace(spec.market, rate=spec.market.rate.raised(by)))


def _move_yield(spec: Spec, by: float, assets: tuple[int, ...] | None) -> Spec:
    return replace(spec, market=replace(spec.market, yields=_moved(spec.market.yields, by, assets)))


def _move_v0(spec: Spec, by: float, assets: tuple[int, ...] | None) -> Spec:
    if not isinstance(spec.model, Heston):
        raise NotMovableError("the model has no variance today")
    return replace(spec, model=replace(spec.model, v0=spec.model.v0 + by))


def _move_corr(spec: Spec, by: float, assets: tuple[int, ...] | None) -> Spec:
    if assets is None or len(assets) != 2:
        raise NotMovableError("a correlation belongs to two assets")
    rows = [list(row) for row in spec.market.correlation]
    i, j = assets
    rows[i][j] += by
    rows[j][i] += by
    matrix: Matrix = tuple(tuple(row) for row in rows)
    return replace(spec, market=replace(spec.market, correlation=matrix))


def _move_time(spec: Spec, by: float, assets: tuple[int, ...] | None) -> Spec:
    market = spec.market
    model = spec.model
    if isinstance(model, LocalVol):
        model = replace(model, times=_delayed(model.times, by))
    return replace(
        spec,
        expiry=_later(spec.expiry, by),
        product=_delay_fields(spec.product, by),
        model=model,
        market=replace(
            market,
            rate=market.rate.delayed(by),
            yields=tuple(curve.delayed(by) for curve in market.yields),
            vols=tuple(curve.delayed(by) for curve in market.vols),
            dividends=tuple(Dividend(_later(paid.time, by), paid.amount) for paid in market.dividends),
        ),
    )


def _later(time: float, by: float) -> float:
    if time <= 0.0 or time + by < 0.0:
        raise NotMovableError("a date is today")
    return time + by


def _delayed(times: tuple[float, ...], by: float) -> tuple[float, ...]:
    return tuple(_later(time, by) for time in times)


def _delay_fields(part: Any, by: float) -> Any:
    changes: dict[str, Any] = {}
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, Averaging) and value.continuous:
            raise NotMovableError("a continuous average begins today")
        if isinstance(value, Averaging | Monitoring | Schedule):
            changes[field.name] = (
                value if value.times is None else replace(value, times=_delayed(value.times, by))
            )
        elif field.name in _TIMES_OF_PRODUCTS and isinstance(value, float):
            changes[field.name] = _later(value, by)
    return replace(part, **changes)


_MOVES = {
    "spot": _move_spot,
    "vol": _move_vol,
    "rate": _move_rate,
    "yield": _move_yield,
    "v0": _move_v0,
    "corr": _move_corr,
    "time": _move_time,
}
