"""What no method of ours can price: told from the request alone."""

from __future__ import annotations

from engine.pricing.montecarlo.settings import settings_of
from engine.pricing.montecarlo.smoothing import can_smooth
from engine.pricing.spec import BlackScholes, Spec, SpecError
from engine.pricing.spec import products as p
from engine.pricing.spec.models import MODEL_NAMES

_OF_VALUES = (p.Chooser, p.Compound, p.Quanto)
"""What turns into an option whose value, or whose drift, is known under Black-Scholes alone."""


def check_priceable(spec: Spec) -> None:
    """SpecError for a product that its model, or its settings, cannot price."""
    if isinstance(spec.product, _OF_VALUES) and not isinstance(spec.model, BlackScholes):
        raise SpecError(
            "model.name", MODEL_NAMES[type(spec.model)], f"must be black_scholes for {spec.instrument}"
        )
    if settings_of(spec).smoothing == "conditional" and not can_smooth(spec):
        rule = "must be auto or none but for levels at two dates or more, one asset, and steps that are normal"
        raise SpecError("mc.smoothing", "conditional", rule)
