"""About what a price costs, told from the request alone."""

from __future__ import annotations

from dataclasses import dataclass

from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.settings import settings_of
from engine.pricing.montecarlo.smoothing import is_smoothed
from engine.pricing.spec import BlackScholes, Cev, Heston, LocalVol, Spec
from engine.pricing.spec import products as p

EXACT_S = 0.05  # of a formula, a lattice or a recursion
RECORD_S = 1.0  # of a form of contract that is simulated for the first time
STEP_S = {Heston: 1.5e-7, Cev: 1e-7, LocalVol: 2e-7}
USUAL_STEP_S = 8e-9  # of one step of one path, on two cores
GREEKS = 2.0  # times the price alone
SMOOTHED = (1.6, 9.0, 34.0)  # times a plain price: the price alone, with first derivatives, with second ones
SECOND = ("gamma", "vanna", "volga")
BYTES = 400  # of what stands in memory for one step of one path

SIMULATED = (p.Autocallable, p.Cliquet, p.Custom)
"""Of which no exact price is known: they are always simulated."""


@dataclass(frozen=True, slots=True)
class Cost:
    """``path_steps`` and ``memory_bytes`` at once, and ``seconds`` on a small machine."""

    path_steps: float
    memory_bytes: float
    seconds: float


def cost_of(spec: Spec) -> Cost:
    """The cost of a request; a target error is taken to use its time."""
    simulated = spec.method == "monte_carlo" or spec.simulation is not None
    simulated = simulated or not isinstance(spec.model, BlackScholes) or isinstance(spec.product, SIMULATED)
    if spec.expiry == 0.0 or spec.method == "closed_form" or isinstance(spec.product, p.ImpliedVol):
        simulated = False
    if not simulated:
        return Cost(0.0, 0.0, EXACT_S)
    settings = settings_of(spec)
    steps = len(grid_of(spec).times) * spec.market.assets
    paths = settings.paths or 0
    if isinstance(spec.product, p.American | p.Bermudan | p.MaxCall):
        paths += settings.calibration_paths or 2**16
    path_steps = float(paths * steps)
    each = STEP_S.get(type(spec.model), USUAL_STEP_S) * _more(spec)
    seconds = RECORD_S + path_steps * each
    if settings.target_se is not None:
        seconds += settings.max_seconds
    return Cost(path_steps, float(4096 * steps * BYTES), EXACT_S + seconds)


def _more(spec: Spec) -> float:
    """How much more a step takes than that of a plain price."""
    if not is_smoothed(spec):
        return GREEKS if spec.greeks else 1.0
    order = (2 if set(spec.greeks) & set(SECOND) else 1) if spec.greeks else 0
    return SMOOTHED[order]
