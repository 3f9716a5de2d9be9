"""Heston's variance by the quadratic-exponential scheme with martingale correction.

L. Andersen, Efficient simulation of the Heston stochastic volatility model, Journal of Computational Finance
11 (2008): sections 3.2 (QE), 4.2 (the log return given both variances) and 4.3 (the correction).
"""

from __future__ import annotations

from collections.abc import Callable
from math import expm1
from typing import Any

from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import over_steps
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import Spec
from engine.tensor import Tensor, where
from engine.tracing.regions import Turn, loop

SWITCH = (
    1.5  # of variance over squared mean: below, the square of a normal; above, an exponential with an atom
)
LEAST_XI = 1e-5  # a variance that does not move is taken to move by this
_LEAST_PSI = 1e-18  # where the variance has vanished for good; its inverse has a square in any dtype
_TINY = 1e-300

Numbered = Callable[[Spec, float], tuple[float, float]]
"""A number of a step, by its length, and its derivative in that."""


def returns(
    numbers: Numbers, shifts: Shifts, normals: Tensor, uniforms: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean (without r - q) and variance of each step's log return, given the variance process, and the
    integral of that process: [blocks, dates, paths] each.
    """
    dates = uniforms.shape[1]
    v = shifts.moved(numbers.scalar("v0", lambda spec: spec.model.v0), "v0")  # type: ignore[attr-defined]
    v = v.broadcast_to(uniforms.shape[0], 1, uniforms.shape[2]).squeeze(1)
    later = shifts.get("time")

    def column(name: str, get: Numbered) -> Tensor:
        own = numbers.column(name, over_steps(lambda spec, begin, end: get(spec, end - begin)[0]))
        if later is None:
            return own
        return own + later * numbers.column(f"{name} slope", lambda spec: _first_slope(spec, get))

    k2, k34 = (_by_date(column(f"heston k{i}", _weights(i))) for i in (2, 3))
    decay, spread, rest, pull = (_by_date(column(f"heston {i}", _moments(i))) for i in range(4))
    z, u = normals.permute(1, 0, 2), uniforms.permute(1, 0, 2)

    def step(turn: Tensor, v: Tensor) -> Turn:
        a = k2[turn] + k34[turn] * 0.5
        m, s2 = v * decay[turn] + pull[turn], v * spread[turn] + rest[turn]
        after, log_moment = _next(m, s2, u[turn], z[turn], a)
        mean = k2[turn] * after - v * (k34[turn] * 0.5) - log_moment
        return Turn(after, (mean, v + after))

    means, sums = loop(dates, step, v).stacked
    both = sums.permute(1, 0, 2)
    conditional = (both * column("heston k3", _weights(3))).clamp(_TINY)
    return means.permute(1, 0, 2), conditional, (both * column("half dt", _half)).clamp(_TINY)


def _by_date(x: Tensor) -> Tensor:
    """Numbers of dates, a scalar each, or [blocks, paths] where they move."""
    return x.reshape(x.shape[0]) if x.ndim == 2 else x.permute(1, 0, 2)


def _first_slope(spec: Spec, get: Numbered) -> list[float]:
    """The derivative of a number in the length of the first step, which is that of all dates."""
    grid = grid_of(spec)
    return [get(spec, grid.times[0])[1], *[0.0] * (len(grid.times) - 1)]


def _next(m: Tensor, s2: Tensor, u: Tensor, z: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """The variance after a step of mean m and variance s2, and log E[exp(a · it)]."""
    psi = s2 / (m * m).clamp(_TINY)
    inverse = 2.0 / psi.clamp(_LEAST_PSI, SWITCH)
    b2 = inverse - 1.0 + (inverse * (inverse - 1.0)).sqrt()
    scale = m / (b2 + 1.0)
    root = b2.sqrt() + z
    bent = 1.0 - a * scale * 2.0
    square = scale * root * root
    square_moment = a * b2 * scale / bent - bent.clamp(_TINY).log() * 0.5
    wide = psi.clamp(SWITCH)
    atom = (wide - 1.0) / (wide + 1.0)
    beta = (1.0 - atom) / m.clamp(_TINY)
    tail = where(u <= atom, 0.0, ((1.0 - atom) / (1.0 - u)).log() / beta)
    tail_moment = (atom + beta * (1.0 - atom) / (beta - a)).clamp(_TINY).log()
    quadratic = psi <= SWITCH
    return where(quadratic, square, tail), where(quadratic, square_moment, tail_moment)


def _half(spec: Spec, dt: float) -> tuple[float, float]:
    return 0.5 * dt, 0.5


def _model(spec: Spec) -> Any:
    return spec.model


def _moments(which: int) -> Numbered:
    """Of the next variance given v: mean = decay v + pull, variance = spread v + rest (equations 17, 18)."""

    def moment(spec: Spec, dt: float) -> tuple[float, float]:
        model = _model(spec)
        kappa, xi2 = model.kappa, max(model.xi, LEAST_XI) ** 2
        gone = -expm1(-kappa * dt)  # 1 - exp(-kappa dt)
        left = 1.0 - gone
        over = gone / kappa if kappa > 0.0 else dt
        return (
            (left, -kappa * left),
            (xi2 * left * over, xi2 * left * (left - kappa * over)),
            (0.5 * model.theta * xi2 * gone * over, 0.5 * model.theta * xi2 * left * (kappa * over + gone)),
            (model.theta * gone, model.theta * kappa * left),
        )[which]

    return moment


def _weights(which: int) -> Numbered:
    """K1, K2, and K3 = K4 of the log return, with the variance's integral by its mean (equation 33)."""

    def weight(spec: Spec, dt: float) -> tuple[float, float]:
        model = _model(spec)
        xi = max(model.xi, LEAST_XI)
        slope = 0.5 * (model.kappa * model.rho / xi - 0.5)
        if which == 3:
            return 0.5 * dt * (1.0 - model.rho**2), 0.5 * (1.0 - model.rho**2)
        bend = 0.5 * dt * (model.kappa * model.rho / xi - 0.5)
        return bend - model.rho / xi if which == 1 else bend + model.rho / xi, slope

    return weight
