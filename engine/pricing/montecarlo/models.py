"""The dynamics of each model: how many factors a step takes, and the path they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.pricing.montecarlo.factors import Factors
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import Path, black_scholes
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec import products as p


@dataclass(frozen=True, slots=True)
class Dynamics:
    """``normals`` and ``uniforms`` a step; ``path`` makes paths of factors in a market that may be shifted."""

    normals: int
    uniforms: int
    path: Callable[[Numbers, Shifts, Factors], Path]
    has_density: bool = False
    """Whether the density of a path is known, so that likelihood ratios can be taken."""


def dynamics_of(spec: Spec) -> Dynamics:
    """The dynamics of a request's model, with what its product draws beside them."""
    bridged = isinstance(spec.product, p.Lookback) and spec.product.monitoring.times is None
    assert isinstance(spec.model, BlackScholes)
    return Dynamics(spec.market.assets, int(bridged), _black_scholes, spec.market.assets == 1 and not bridged)


def _black_scholes(numbers: Numbers, shifts: Shifts, factors: Factors) -> Path:
    uniforms = factors.uniforms[0] if factors.uniforms else None
    return black_scholes(numbers, shifts, factors.normals, uniforms)
