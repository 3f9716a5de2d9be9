"""Extremes of paths that are watched always: the largest or smallest value of the bridge in each step.

The law of a bridge's maximum from a to b is P(M > m) = exp(-2 (m - a)(m - b) / v) above both (Karatzas and
Shreve, section 2.8), so (a + b + √((b - a)² - 2 v log U)) / 2 has it.
"""

from __future__ import annotations

from math import pi
from typing import Any

from engine.core.dtype import float64
from engine.pricing.montecarlo.paths import Path, taken
from engine.tensor import Tensor

_LOWEST = 1e-300


def of_bridges(path: Path, of_maximum: bool) -> Tensor:
    """The asset's extreme in each step, [blocks, dates, paths]."""
    before, after, total, _, asset = path.bridge
    assert path.uniforms is not None
    spread = ((after - before) * (after - before) + total * path.uniforms.log() * -2.0).sqrt()
    return asset((after + before + (spread if of_maximum else -spread)) * 0.5)


def by_mean(path: Path, of_maximum: bool) -> Tensor:
    """The path's extreme, what is paid above or below a strike included, with the mean of the first step's.

    That step begins at the spot, which the extreme cannot pass: a density could not hold it where the spot
    moves. E[max(e^M, e^q)] = e^q + ∫ e^m P(M > m) dm from q on, which is Gaussian; [blocks, paths].
    """
    product: Any = path.numbers.spec.product
    pick = Tensor.maximum if of_maximum else Tensor.minimum
    a, b = (x[:, 0].astype(float64) for x in (path.before(), path.logs[0]))
    q = pick(a, b)
    if path.logs[0].shape[1] > 1:
        later = of_bridges(path, of_maximum)[:, 1:].clamp(_LOWEST).log()
        q = pick(q, later.max(1) if of_maximum else later.min(1))
    for name in ("strike", "extreme"):
        if getattr(product, name) is not None:
            level = path.number(name, lambda spec, name=name: getattr(spec.product, name))  # type: ignore[misc]
            q = pick(q, level.clamp(_LOWEST).log())
    total = path.variance[0]
    v = (total[0] if total.ndim == 2 else total[:, 0]).astype(float64)
    middle = (a + b) * 0.5
    end = (q - middle - v * 0.25) * (2.0 / v).sqrt()
    mass = ((a - b) * (a - b) / (v * 2.0) + middle + v * 0.125).exp() * (v * (pi / 8.0)).sqrt()
    rest = mass * (1.0 - (end if of_maximum else -end).erf())
    return q.exp() + rest if of_maximum else q.exp() - rest


def held(uniforms: Tensor, total: Tensor) -> tuple[Tensor, Tensor | None]:
    """The uniforms by which extremes stay while ``total``, the variance of each step, is shifted, and their
    density over what it was, [blocks, paths]; without the first step, whose mean is taken.
    """
    dates = uniforms.shape[1]
    if dates == 1:
        return uniforms, None
    moved = uniforms.log() * (total.detach() / total)  # -2 (m - a)(m - b) / v
    log = taken(moved - total.log(), 1, 1, dates - 1).sum(1)
    return moved.exp(), (log - log.detach()).exp()
