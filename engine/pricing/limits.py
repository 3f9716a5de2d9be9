"""What no method of ours can price: told from the request alone."""

from __future__ import annotations

from typing import Any

from engine.pricing.deterministic import is_deterministic
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
    if spec.market.pays(0.0, spec.expiry) and not is_deterministic(spec):
        _check_dividends(spec)
    if settings_of(spec).smoothing == "conditional" and not can_smooth(spec):
        rule = "must be auto or none but for levels at dates (two of them under black_scholes) of one asset"
        raise SpecError("mc.smoothing", "conditional", rule)


def _check_dividends(spec: Spec) -> None:
    """SpecError where no law of the path is known: what is lognormal is the asset less dividends to come."""
    product: Any = spec.product
    schedule = getattr(product, "monitoring", None) or getattr(product, "averaging", None)
    paid = [list(d) for d in spec.market.dividends]
    if isinstance(product, p.Quanto):
        raise SpecError("dividends", paid, "must be empty for quanto: a yield q says the same")
    if schedule is not None and schedule.times is None and not isinstance(product, p.Custom):
        rule = f"must be empty for a {spec.instrument} that is watched always, between whose dates"
        raise SpecError("dividends", paid, f"{rule} the asset is not lognormal; give dates, or a yield q")
