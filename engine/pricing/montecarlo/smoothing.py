"""Which simulations are smoothed: what a path decides at levels is replaced by its mean, given the rest.

Payoffs that jump at dates become smooth, so that they may be differentiated along the path (survival.py).
"""

from __future__ import annotations

from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.no_density import why_none
from engine.pricing.montecarlo.settings import settings_of
from engine.pricing.spec import BlackScholes, Heston, MertonJumps, Spec
from engine.pricing.spec import products as p

NORMAL_STEPS = (BlackScholes, MertonJumps, Heston)
"""Models whose log returns are normal, given what else is drawn."""


def can_smooth(spec: Spec) -> bool:
    """Whether a contract jumps at levels that it looks at on dates, under a model whose steps have densities.

    Under Black-Scholes it takes two dates: with one alone the mean is all that there is.
    """
    product = spec.product
    if spec.expiry == 0.0 or spec.market.assets > 1 or not isinstance(spec.model, NORMAL_STEPS):
        return False
    if why_none(spec) is not None:
        return False
    match product:
        case p.Barrier() | p.DoubleBarrier() | p.Touch():
            at_dates = product.monitoring.times is not None
        case p.Autocallable():
            at_dates = product.observations.times[0] > 0.0
        case p.Digital() | p.Gap():
            at_dates = True
        case _:
            return False
    return at_dates and (len(grid_of(spec).contract) > 1 or not isinstance(spec.model, BlackScholes))


def is_smoothed(spec: Spec) -> bool:
    """Whether a request is: if it says so, and by default if it asks for Greeks."""
    how = settings_of(spec).smoothing
    return how == "conditional" or (how == "auto" and bool(spec.greeks) and can_smooth(spec))


def ratios_of(spec: Spec) -> tuple[str, ...]:
    """Shifts for which paths that survive stay where they are, and their probability moves: what drifts.

    The normals of all steps add up in its logarithm's derivative, whose spread does not grow with their
    number; but Heston's deviations may be close to zero.
    """
    return () if isinstance(spec.model, Heston) or is_at_end(spec) else ("rate", "yield")


def is_at_end(spec: Spec) -> bool:
    """Whether a single date decides, so that the mean is taken over all of the asset's path."""
    return len(grid_of(spec).contract) == 1
