"""Requests that several tests begin from."""

from __future__ import annotations

from typing import Any

from engine.pricing.analytic import exact
from engine.pricing.result import Exact
from engine.pricing.spec import Spec, read_spec

MARKET = {"S": 100, "K": 100, "T": 1, "r": 0.05, "q": 0, "vol": 0.2}
CONTINUOUS = {"kind": "continuous"}


def spec(instrument: str, **fields: Any) -> Spec:
    """The spec of ``instrument`` on the usual market (S = K = 100, one year, r 5 %, vol 20 %)."""
    return read_spec({"instrument": instrument, **MARKET, **fields})


def answer(instrument: str, greeks: tuple[str, ...] = (), **fields: Any) -> Exact:
    """Its exact price and Greeks."""
    found = exact(spec(instrument, **fields), greeks)
    assert found is not None
    return found


def value(instrument: str, **fields: Any) -> float:
    """Its exact price."""
    return answer(instrument, **fields).value


def barrier(type_: str, level: float, **more: Any) -> dict[str, Any]:
    """The fields of a barrier that is watched always."""
    return {"barrier": {"level": level, "type": type_, **more}, "monitoring": CONTINUOUS}
