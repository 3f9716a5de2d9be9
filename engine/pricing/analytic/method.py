"""What a row of the table of methods says: how a price is computed, and where the formula is from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from engine.pricing.spec import Model, Product, Spec

Price: TypeAlias = Callable[[Spec], float]


class UnknownError(Exception):
    """No method gives the price to the accuracy that is promised; the text says why."""


def always(spec: Spec) -> bool:
    """The method serves every contract of its product and model."""
    return True


@dataclass(frozen=True, slots=True)
class Method:
    """A way to price ``product`` under ``model``, for the contracts that ``serves`` accepts.

    ``price`` raises UnknownError where it finds that it is not accurate. ``greeks`` gives Greeks as formulas
    by name; others are taken as differences of ``price``. Those in the spot take steps of ``step`` times the
    scale on which the price bends: wider ones where gamma would show that the price itself is less accurate.
    ``rounding`` is about how far prices are from smooth in their parameters, for a spot of 1. Without
    ``is_smooth`` the price is too rough for differences.
    """

    product: type[Product]
    model: type[Model]
    name: str
    source: str
    price: Price
    serves: Callable[[Spec], bool] = always
    greeks: Callable[[Spec], Mapping[str, float]] | None = None
    step: float = 0.006
    rounding: float = 1e-15
    is_smooth: bool = True
