"""Requests for prices as checked data. This package loads no compiler, no tensors and no C."""

from __future__ import annotations

from engine.pricing.spec import products
from engine.pricing.spec.curve import Curve
from engine.pricing.spec.fields import SpecError
from engine.pricing.spec.market import Market
from engine.pricing.spec.models import (
    BlackScholes,
    Cev,
    Displaced,
    Heston,
    LocalVol,
    MertonJumps,
    Model,
)
from engine.pricing.spec.products import PRODUCTS, Product
from engine.pricing.spec.schedule import Averaging, Monitoring, Schedule
from engine.pricing.spec.simulation import Simulation
from engine.pricing.spec.spec import GREEKS, Spec, describe, read_spec

__all__ = [
    "GREEKS",
    "PRODUCTS",
    "Averaging",
    "BlackScholes",
    "Cev",
    "Curve",
    "Displaced",
    "Heston",
    "LocalVol",
    "Market",
    "MertonJumps",
    "Model",
    "Monitoring",
    "Product",
    "Schedule",
    "Simulation",
    "Spec",
    "SpecError",
    "describe",
    "products",
    "read_spec",
]
