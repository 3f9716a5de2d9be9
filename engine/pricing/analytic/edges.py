"""Greeks of contracts whose path is certain: one-sided differences that agree, or none."""

from __future__ import annotations

from engine.pricing.analytic.differences import MOVES, expanded
from engine.pricing.bump import NotMovableError, bumped
from engine.pricing.deterministic import value
from engine.pricing.result import UNITS, Greek
from engine.pricing.spec import Spec

METHOD = "derivative of the payoff"
_STEP = 1e-6
_BEND = 1e-3


def greeks(spec: Spec, names: tuple[str, ...]) -> dict[str, Greek]:
    """Greeks on a certain path; null where the payoff bends, or where the limit of no volatility is none."""
    return {name: _greek(spec, greek, assets) for name, greek, assets in expanded(spec, names)}


def _greek(spec: Spec, greek: str, assets: tuple[int, ...] | None) -> Greek:
    unit = UNITS[greek]
    moves = MOVES[greek]
    try:
        if moves == ("spot", "spot"):
            _slope(spec, "spot", assets)
            return Greek(0.0, METHOD, unit)
        if moves[0] in ("vol", "v0", "corr") and len(moves) == 1:
            if spec.expiry > 0.0:
                _slope(spec, "spot", None)
            return Greek(0.0, METHOD, unit)
        if len(moves) == 1:
            slope = _slope(spec, moves[0], assets)
            return Greek(-slope if greek == "theta" else slope, METHOD, unit)
    except NotMovableError as error:
        return Greek(None, str(error), unit)
    return Greek(None, "not defined where nothing is random", unit)


def _slope(spec: Spec, parameter: str, assets: tuple[int, ...] | None) -> float:
    """The derivative of the payoff. NotMovableError where those of both sides differ."""
    scale = max(spec.market.spots) if parameter == "spot" else 1.0
    h = _STEP * max(scale, 1e-2)
    here = value(spec)
    ahead = (value(bumped(spec, parameter, h, assets)) - here) / h
    if parameter == "spot" and min(spec.market.spots) == 0.0:
        return ahead
    behind = (here - value(bumped(spec, parameter, -h, assets))) / h
    if abs(ahead - behind) > _BEND * max(1.0, abs(ahead), abs(behind)):
        raise NotMovableError("the payoff bends here")
    return 0.5 * (ahead + behind)
