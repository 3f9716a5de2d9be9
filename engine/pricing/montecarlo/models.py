"""The dynamics of each model: how many factors a step takes, and the path that they make.

In most models a step's log return is normal, given what else was drawn: its mean and variance make the path,
and its density.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.pricing.montecarlo import displaced, euler, extremes, heston
from engine.pricing.montecarlo.correlate import correlated
from engine.pricing.montecarlo.density import of_returns
from engine.pricing.montecarlo.factors import Factors, Needs
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.jumps import most_jumps, poisson
from engine.pricing.montecarlo.no_density import why_none
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import Path, carry, gathered, picked, start, summed, variance
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import BlackScholes, Cev, Displaced, Heston, LocalVol, MertonJumps, Model, Spec
from engine.pricing.spec import products as p
from engine.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Return:
    """One asset's log returns: mean and variance of each step, [dates, 1] or [blocks, dates, paths].

    ``spread`` is what the return gathers where that is more than the variance given what else was drawn.
    ``weight`` has the value 1; its derivative is that of the probability of what else was drawn, [blocks,
    paths].
    """

    mean: Tensor
    variance: Tensor
    spread: Tensor | None = None
    weight: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Dynamics:
    """``normals`` and ``uniforms`` that a step takes beside a normal for each asset; ``returns`` of each.

    A model whose returns are not normal makes its ``path`` itself, and says how it is ``held``.
    """

    normals: int = 0
    uniforms: int = 0
    returns: Callable[[Numbers, Shifts, Factors], list[Return]] | None = None
    path: Callable[[Numbers, Shifts, Factors, Tensor], tuple[Tensor, Tensor]] | None = None
    held: Callable[[Numbers, Shifts, Factors], tuple[Factors, Tensor]] | None = None

    def simulate(self, numbers: Numbers, factors: Factors, shifts: Shifts) -> Path:
        """The path that the factors make in the shifted market, at the contract's times."""
        assets, times = numbers.spec.market.assets, grid_of(numbers.spec).times
        starts = [start(numbers, shifts, asset) for asset in range(assets)]
        driving = correlated(numbers, shifts, factors.normals[:assets])
        if self.returns is None:
            assert self.path is not None
            levels, spread = self.path(numbers, shifts, factors, starts[0])
            floored = levels.clamp(1e-300).log()
            path = Path(times, numbers, shifts, [floored], starts, [spread], factors.bridge, [levels])
            return _seen(path)
        returns = self.returns(numbers, shifts, factors)
        logs = [
            summed(z * own.variance.sqrt() + own.mean) + begin
            for z, own, begin in zip(driving, returns, starts, strict=True)
        ]
        spreads = [own.variance if own.spread is None else own.spread for own in returns]
        weight = returns[0].weight
        return _seen(Path(times, numbers, shifts, logs, starts, spreads, factors.bridge, weight=weight))

    def density(self, numbers: Numbers, shifts: Shifts, factors: Factors) -> tuple[Factors, Tensor]:
        """Of the paths that the factors make in the market as it is, taken to stay where they are.

        The factors that lead there in the shifted market, and the density over what it was: a factor of
        value 1, [blocks, paths]. Extremes stay as well.
        """
        moved, ratio = self._holding(numbers, shifts, factors)
        if factors.bridge is None:
            return moved, ratio
        uniforms, weight = extremes.held(factors.bridge, self.simulate(numbers, moved, shifts).variance[0])
        return replace(moved, bridge=uniforms), ratio if weight is None else ratio * weight

    def _holding(self, numbers: Numbers, shifts: Shifts, factors: Factors) -> tuple[Factors, Tensor]:
        """Those that hold the dates."""
        if self.returns is None:
            assert self.held is not None
            return self.held(numbers, shifts, factors)
        here, there = (self.returns(numbers, own, factors) for own in (Shifts(), shifts))
        laws = [[(own.mean, own.variance) for own in found] for found in (here, there)]
        moved, ratio = of_returns(numbers, shifts, factors, *laws)
        weight = there[0].weight
        return moved, ratio if weight is None else ratio * weight


def _seen(path: Path) -> Path:
    """A path at the times that the contract sees, what it gathers between them added up."""
    grid = grid_of(path.numbers.spec)
    if len(grid.seen) == len(grid.times):
        return path
    return replace(
        path,
        times=grid.contract,
        logs=[picked(x, grid.seen) for x in path.logs],
        levels=None if path.levels is None else [picked(x, grid.seen) for x in path.levels],
        variance=[gathered(x, grid.seen) for x in path.variance],
    )


# ---- the models


def _black_scholes(numbers: Numbers, shifts: Shifts, factors: Factors) -> list[Return]:
    """log S gathers (r - q - v²/2) dt + v dW: exact at any step."""
    found = []
    for asset in range(numbers.spec.market.assets):
        total = variance(numbers, shifts, asset)
        found.append(Return(carry(numbers, shifts, asset) - total * 0.5, total))
    return found


def _merton(numbers: Numbers, shifts: Shifts, factors: Factors) -> list[Return]:
    """Merton (1976): given their number, jumps add to mean and variance."""
    count, compensator, weight = poisson(numbers, shifts, factors.uniforms[0])
    total = variance(numbers, shifts, 0)
    mean = numbers.scalar("jump mean", lambda spec: spec.model.mean)  # type: ignore[attr-defined]
    spread = numbers.scalar("jump variance", lambda spec: spec.model.deviation**2)  # type: ignore[attr-defined]
    drift = carry(numbers, shifts, 0) - total * 0.5 - compensator
    return [Return(drift + count * mean, total + count * spread, weight=weight)]


def _heston(numbers: Numbers, shifts: Shifts, factors: Factors) -> list[Return]:
    mean, variance, spread = heston.returns(numbers, shifts, factors.normals[1], factors.uniforms[0])
    return [Return(carry(numbers, shifts, 0) + mean, variance, spread)]


_DYNAMICS: dict[type[Model], Dynamics] = {
    BlackScholes: Dynamics(returns=_black_scholes),
    MertonJumps: Dynamics(uniforms=1, returns=_merton),
    Heston: Dynamics(normals=1, uniforms=1, returns=_heston),
    Displaced: Dynamics(path=displaced.path, held=displaced.held),
    Cev: Dynamics(path=euler.CEV.path, held=euler.CEV.held),
    LocalVol: Dynamics(path=euler.LOCAL_VOL.path, held=euler.LOCAL_VOL.held),
}


def dynamics_of(spec: Spec) -> Dynamics:
    """The dynamics of a request's model."""
    return _DYNAMICS[type(spec.model)]


def needs_of(spec: Spec) -> Needs:
    """What a path of a request draws."""
    dynamics = dynamics_of(spec)
    bridged = isinstance(spec.product, p.Lookback) and spec.product.monitoring.times is None
    return Needs(len(grid_of(spec).times), spec.market.assets + dynamics.normals, dynamics.uniforms, bridged)


def form_of(spec: Spec) -> tuple[int, bool, bool]:
    """What of a request's numbers decides the graph: jumps, and whether paths have a density, or end at 0."""
    jumps = most_jumps(spec) if isinstance(spec.model, MertonJumps) else 0
    return jumps, why_none(spec) is None, euler.may_vanish(spec)
