"""Answers as JSON: every number with its error, Greeks raw and scaled."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from engine.pricing.result import SCALED, Greek, ImpliedVolResult, Result


def answer_of(result: Result | ImpliedVolResult) -> dict[str, Any]:
    """What clients get. Numbers that are not finite are null."""
    found: dict[str, Any] = asdict(result)
    if isinstance(result, Result):
        found["kind"] = "price"
        found["greeks"] = _greeks(result.greeks)
        if result.closed_form is not None:
            found["closed_form"] |= {"greeks": _greeks(result.closed_form.greeks), "z": result.z}
    else:
        found["kind"] = "implied_vol"
    clean: dict[str, Any] = finite(found)
    return clean


def _greeks(greeks: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, greek in greeks.items():
        found[name] = asdict(greek)
        base = name.rstrip("0123456789")
        if base in SCALED:
            scaled, divisor = SCALED[base]
            found[scaled + name[len(base) :]] = _scaled(greek, scaled, divisor)
    return found


def _scaled(greek: Greek, name: str, divisor: float) -> dict[str, Any]:
    unit = "per day of 365" if name == "theta_day" else "per 0.01"
    value = None if greek.value is None else greek.value / divisor
    return asdict(Greek(value, greek.method, unit, greek.se / divisor))


def finite(value: Any) -> Any:
    """``value`` as JSON has it, with null for each number that is not finite."""
    if isinstance(value, dict):
        return {key: finite(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [finite(own) for own in value]
    return None if isinstance(value, float) and not isfinite(value) else value
