"""What error the standard error of a simulation does not cover."""

from __future__ import annotations

from engine.pricing.montecarlo.grid import grid_of, pays_at_hit
from engine.pricing.montecarlo.settings import settings_of
from engine.pricing.spec import BlackScholes, Cev, Displaced, Heston, LocalVol, Monitoring, Spec
from engine.pricing.spec import products as p

NONE = "none: paths are exact at the contract's dates"


def bias_of(spec: Spec) -> str:
    """A sentence for each source of bias, or ``NONE``."""
    found = [*_of_model(spec), *_of_product(spec)]
    settings = settings_of(spec)
    if settings.moment_matching:
        found.append("matched moments make the paths of a block depend on each other: order 1/4096")
    if settings.precision == "float32":
        found.append("paths in float32: about 1e-6 of the price")
    return "; ".join(found) or NONE


def _of_model(spec: Spec) -> list[str]:
    steps = len(grid_of(spec).times)
    match spec.model:
        case Heston():
            return [f"QE-M in {steps} steps: of higher order in the step, below the error at this number"]
        case Cev() | LocalVol():
            return [f"Euler in {steps} steps: of first order in the step"]
    return []


def _of_product(spec: Spec) -> list[str]:
    product = spec.product
    steps = len(grid_of(spec).contract)
    if isinstance(product, p.American | p.Bermudan | p.MaxCall):
        found = (
            []
            if not isinstance(product, p.American)
            else [f"exercise at {steps} dates, not at any time: low"]
        )
        if spec.greeks:
            found.append("Greeks take the exercise rule for the best one: a few percent")
        return [*found, "the exercise rule is not the best: low"]
    if isinstance(product, p.Asian) and product.averaging.continuous:
        found = [f"the integral by {steps} trapezoids: of second order in the step"]
        if "gamma" in spec.greeks and isinstance(spec.model, Cev | Displaced | LocalVol):
            found.append(f"gamma leaves out what today weighs in it: about one part in {2 * steps}")
        return found
    monitoring = getattr(product, "monitoring", None)
    if not isinstance(monitoring, Monitoring) or monitoring.times is not None:
        return []
    if isinstance(product, p.Custom):
        return [f"watched at {steps} dates instead of always"]
    if isinstance(product, p.VarianceSwap) and isinstance(spec.model, BlackScholes | Heston):
        return [] if isinstance(spec.model, BlackScholes) else [f"the integral by {steps} trapezoids"]
    if isinstance(product, p.VarianceSwap):
        return [f"squared returns of {steps} steps instead of the integral: of first order in the step"]
    if pays_at_hit(product):
        return [f"a hit is taken to be in the middle of one of {steps} steps: of second order in the step"]
    if not isinstance(spec.model, BlackScholes):
        return [f"between {steps} dates the volatility is taken to be constant: of first order in the step"]
    return []
