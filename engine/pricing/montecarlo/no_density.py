"""Why the paths of a request have no density: told from the request alone."""

from __future__ import annotations

from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.numerics.cholesky import is_singular
from engine.pricing.spec import Heston, LocalVol, Spec

_LEAST_OWN = 1e-9  # the part of its variance that an asset under Heston does not share with its volatility


def why_none(spec: Spec) -> str | None:
    """Why paths have no density; None where they have one."""
    grid, market = grid_of(spec), spec.market
    if is_singular(market.correlation):
        return "the correlation matrix is singular, so the assets have no joint density"
    if min(market.spots) <= 0.0:
        return "an asset at 0 has no density"
    if isinstance(spec.model, Heston) and 1.0 - spec.model.rho**2 < _LEAST_OWN:
        return "the variance alone moves the asset, so its paths have no density"
    if isinstance(spec.model, LocalVol):
        still = min(map(min, spec.model.vols)) == 0.0
    else:
        steps = list(zip(grid.starts, grid.times, strict=True))
        still = any(
            market.variance(asset, *step) == 0.0 for asset in range(len(market.vols)) for step in steps
        )
    return "an asset without volatility has no density" if still else None
