"""Heston's variance by the quadratic-exponential scheme with martingale correction.

L. Andersen, Efficient simulation of the Heston stochastic volatility model, Journal of Computational Finance
11 (2008): sections 3.2 (QE), 4.2 (the log return given both variances) and 4.3 (the correction).
"""

from __future__ import annotations

from math import expm1
from typing import Any

from engine.pricing.montecarlo.numbers import Getters, Numbers
from engine.pricing.montecarlo.paths import over_steps
from engine.pricing.montecarlo.shifts import Shifts
from engine.pricing.spec import Spec
from engine.tensor import Tensor, where
from engine.tracing.regions import Turn, loop

SWITCH = (
    1.5  # of variance over squared mean: below, the square of a normal; above, an exponential with an atom
)
LEAST_XI = 1e-5  # a variance that does not move is taken to move by this
_TINY = 1e-300


def returns(
    numbers: Numbers, shifts: Shifts, normals: Tensor, uniforms: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean (without r - q) and variance of each step's log return, given the variance process, and the
    integral of that process: [blocks, dates, paths] each.
    """
    dates = uniforms.shape[1]
    v = shifts.moved(numbers.scalar("v0", lambda spec: spec.model.v0), "v0")  # type: ignore[attr-defined]
    v = v.broadcast_to(uniforms.shape[0], 1, uniforms.shape[2]).squeeze(1)
    k2, k34 = (_by_date(numbers, f"heston k{i}", _weights(i)) for i in (2, 3))
    decay, spread, rest, pull = (_by_date(numbers, f"heston {i}", _moments(i)) for i in range(4))
    z, u = normals.permute(1, 0, 2), uniforms.permute(1, 0, 2)

    def step(turn: Tensor, v: Tensor) -> Turn:
        a = k2[turn] + k34[turn] * 0.5
        m, s2 = v * decay[turn] + pull[turn], v * spread[turn] + rest[turn]
        after, log_moment = _next(m, s2, u[turn], z[turn], a)
        mean = k2[turn] * after - v * (k34[turn] * 0.5) - log_moment
        return Turn(after, (mean, v + after))

    means, sums = loop(dates, step, v).stacked
    both = sums.permute(1, 0, 2)
    conditional = (both * numbers.column("heston k3", _weights(3))).clamp(_TINY)
    return means.permute(1, 0, 2), conditional, (both * numbers.column("half dt", _half)).clamp(_TINY)


def _by_date(numbers: Numbers, name: str, get: Getters) -> Tensor:
    """Numbers of dates, a scalar each."""
    column = numbers.column(name, get)
    return column.reshape(column.shape[0])


def _next(m: Tensor, s2: Tensor, u: Tensor, z: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """The variance after a step of mean m and variance s2, and log E[exp(a · it)]."""
    psi = s2 / (m * m).clamp(_TINY)
    inverse = 2.0 / psi.clamp(_TINY, SWITCH)
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


_half = over_steps(lambda spec, begin, end: 0.5 * (end - begin))


def _model(spec: Spec) -> Any:
    return spec.model


def _moments(which: int) -> Any:
    """Of the next variance given v: mean = decay v + pull, variance = spread v + rest (equations 17, 18)."""

    def moment(spec: Spec, begin: float, end: float) -> float:
        model = _model(spec)
        kappa, dt, xi2 = model.kappa, end - begin, max(model.xi, LEAST_XI) ** 2
        gone = -expm1(-kappa * dt)  # 1 - exp(-kappa dt)
        over = gone / kappa if kappa > 0.0 else dt
        return float(
            (
                1.0 - gone,
                xi2 * (1.0 - gone) * over,
                0.5 * model.theta * xi2 * gone * over,
                model.theta * gone,
            )[which]
        )

    return over_steps(moment)


def _weights(which: int) -> Any:
    """K1, K2, and K3 = K4 of the log return, with the variance's integral by its mean (equation 33)."""

    def weight(spec: Spec, begin: float, end: float) -> float:
        model = _model(spec)
        dt, xi = end - begin, max(model.xi, LEAST_XI)
        bend = 0.5 * dt * (model.kappa * model.rho / xi - 0.5)
        if which == 3:
            return float(0.5 * dt * (1.0 - model.rho**2))
        return float(bend - model.rho / xi if which == 1 else bend + model.rho / xi)

    return over_steps(weight)
