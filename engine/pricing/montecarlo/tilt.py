"""Importance sampling of options that hardly any path would reach, or that a few paths decide.

The normals of a path are moved so that their sum is centred where payoff times density is largest
(Glasserman, Heidelberger and Shahabuddin 1999), and each path weighs what that does to its probability.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

from engine.pricing.montecarlo.factors import Factors
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.spec import BlackScholes, Spec
from engine.pricing.spec import products as p
from engine.tensor import Tensor

FAR = 2.5  # standard deviations from which on an option is far out of the money
WIDE = 1.5  # standard deviation of the logarithm from which on few paths decide a call
WIDEST = 3.0  # the same from which on a sample says little of the asset's mean


def is_tilted(spec: Spec) -> bool:
    """Whether a request is simulated with moved normals: a European option that is far out, or very wide."""
    if not isinstance(spec.model, BlackScholes) or not isinstance(spec.product, p.European):
        return False
    distance, s = _distance(spec)
    outside = distance if spec.product.type == "call" else -distance
    return outside > FAR or (s > WIDE and spec.product.type == "call")


def _distance(spec: Spec) -> tuple[float, float]:
    """The normal at which the asset ends at the strike, and the standard deviation of its logarithm."""
    product: Any = spec.product
    s = sqrt(spec.market.variance(0, 0.0, spec.expiry))
    spot = spec.market.escrowed(spec.expiry)
    if s == 0.0 or spot <= 0.0 or product.strike <= 0.0:
        return 0.0, 0.0
    mean = log(spot) + spec.market.carry(0, 0.0, spec.expiry) - 0.5 * s * s
    return (log(product.strike) - mean) / s, s


def shift_of(spec: Spec) -> float:
    """The z of the largest payoff times density: s e / (e - 1) = z with e = S / K at z, by bisection."""
    if not is_tilted(spec):
        return 0.0
    distance, s = _distance(spec)
    sign = 1.0 if spec.product.type == "call" else -1.0  # type: ignore[attr-defined]
    low, high = 0.0, abs(distance) + s + 40.0  # beyond the strike
    for _ in range(200):
        middle = 0.5 * (low + high)
        slope = (
            s / (1.0 - exp(-s * middle)) if sign > 0.0 else s * exp(-s * middle) / (1.0 - exp(-s * middle))
        )
        if slope > sign * distance + middle:
            low = middle
        else:
            high = middle
    return distance + sign * middle


def tilted(numbers: Numbers, factors: Factors) -> tuple[Factors, Tensor]:
    """Factors with the moved normal of the single step, and the weight of each path, [blocks, paths]."""
    shift = numbers.scalar("tilt", shift_of)
    z = factors.normals[0]
    weight = (z * -shift - shift * shift * 0.5).exp().squeeze(1)
    return Factors([z + shift], factors.uniforms, factors.bridge), weight


def is_wide(spec: Spec) -> bool:
    """Whether an asset spreads over so many orders that a sample says little of its mean."""
    if not spec.market.vols:
        return False
    variances = [spec.market.variance(asset, 0.0, spec.expiry) for asset in range(spec.market.assets)]
    return max(variances) > WIDEST**2
