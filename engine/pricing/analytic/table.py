"""The table of methods: which product under which model has a price without sampling error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.pricing.analytic import (
    american,
    arithmetic,
    barrier,
    basket,
    bermudan,
    black,
    geometric,
    heston,
    jumps,
    local,
    lookback,
    max_call,
    monitored,
    multi,
    two_dates,
    variance,
)
from engine.pricing.analytic.method import Method
from engine.pricing.spec import Model, Product, Spec

_MODULES = (
    black,
    barrier,
    lookback,
    monitored,
    geometric,
    arithmetic,
    american,
    bermudan,
    multi,
    basket,
    max_call,
    two_dates,
    variance,
    jumps,
    heston,
    local,
)


def _by_kind() -> Mapping[tuple[type[Product], type[Model]], tuple[Method, ...]]:
    rows: dict[tuple[type[Product], type[Model]], tuple[Method, ...]] = {}
    for module in _MODULES:
        for method in module.METHODS:
            key = (method.product, method.model)
            rows[key] = (*rows.get(key, ()), method)
    return rows


METHODS = _by_kind()


def methods_for(spec: Spec) -> Iterator[Method]:
    """The methods of the table that serve the contract, the best first."""
    rows = METHODS.get((type(spec.product), type(spec.model)), ())
    return (method for method in rows if method.serves(spec))
