"""Random numbers by counter: which word of the generator a path, a date and a factor read.

Blocks of 4,096 paths are drawn ``group`` at a time. A group has its own key, derived from the seed and the
group's number; in it, the pair k of uniforms of path p in block b has the four words of the generator's block
number (b·pairs + k)·4096 + p. So a path gets the same draws whatever runs beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt

from engine.core.dim import Dim
from engine.core.dtype import float64, uint32
from engine.pricing.montecarlo.blocks import BLOCK
from engine.random import derived_seed, words
from engine.tensor import Tensor, cat, where

PAIRS_A_GROUP = 64  # pairs of uniforms of one path for which a group is a single block
RNG = "philox4x32-10"
LAYOUT = (
    "key = splitmix64(seed, stream, group); uniforms 2k and 2k + 1 of a path, of 52 bits each, are words "
    "(0, 1) and (2, 3) of the block (block·pairs + k)·4096 + path of call 0"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """How many numbers a path draws: ``normals`` of them normal, then ``uniforms`` in (0, 1)."""

    normals: int
    uniforms: int = 0

    @property
    def pairs(self) -> int:
        return (self.normals + 1) // 2 + (self.uniforms + 1) // 2

    @property
    def group(self) -> int:
        """Blocks that share a key: many for short paths, so that one call computes them all."""
        return max(PAIRS_A_GROUP // max(self.pairs, 1), 1)


def key_of(seed: int, stream: int, group: int) -> Tensor:
    """The key of a group: uint32[2]."""
    derived = derived_seed(seed, stream, group)
    return Tensor([derived & 0xFFFFFFFF, derived >> 32], uint32)


def pairs_of_uniforms(key: Tensor, blocks: Dim, pairs: int) -> tuple[Tensor, Tensor]:
    """Two float64[blocks, pairs, 4096] in (0, 1): (k + 1/2) / 2⁵² is never 0 nor 1."""
    bits = words(key, Tensor(0, uint32), (blocks, pairs, BLOCK, 4))
    return _unit(bits[..., 0], bits[..., 1]), _unit(bits[..., 2], bits[..., 3])


def _unit(high: Tensor, low: Tensor) -> Tensor:
    whole = (high >> 6).astype(float64) * 2.0**26 + (low >> 6).astype(float64)
    return (whole + 0.5) * 2.0**-52


def interleaved(first: Tensor, second: Tensor, count: int) -> Tensor:
    """[b, 2k, p] from two [b, k, p]: elements 0, 2, … and 1, 3, …, cut to ``count``."""
    blocks, pairs, paths = first.shape
    both = cat([first.unsqueeze(2), second.unsqueeze(2)], 2).reshape(blocks, 2 * pairs, paths)
    return both if count == 2 * pairs else both[:, :count]


def box_muller(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Two independent normals of two uniforms (Box and Muller 1958)."""
    radius = (first.log() * -2.0).sqrt()
    angle = second * (2.0 * pi)
    return radius * angle.cos(), radius * angle.sin()


# Wichura, Algorithm AS 241: the percentage points of the normal distribution, Applied Statistics 37 (1988),
# coefficients of PPND16 from the constant up: relative error about 1e-16.
_CENTRE = (
    (
        3.3871328727963666080e0,
        1.3314166789178437745e2,
        1.9715909503065514427e3,
        1.3731693765509461125e4,
        4.5921953931549871457e4,
        6.7265770927008700853e4,
        3.3430575583588128105e4,
        2.5090809287301226727e3,
    ),
    (
        1.0,
        4.2313330701600911252e1,
        6.8718700749205790830e2,
        5.3941960214247511077e3,
        2.1213794301586595867e4,
        3.9307895800092710610e4,
        2.8729085735721942674e4,
        5.2264952788528545610e3,
    ),
)
_MIDDLE = (
    (
        1.42343711074968357734e0,
        4.63033784615654529590e0,
        5.76949722146069140550e0,
        3.64784832476320460504e0,
        1.27045825245236838258e0,
        2.41780725177450611770e-1,
        2.27238449892691845833e-2,
        7.74545014278341407640e-4,
    ),
    (
        1.0,
        2.05319162663775882187e0,
        1.67638483018380384940e0,
        6.89767334985100004550e-1,
        1.48103976427480074590e-1,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ),
)
_TAIL = (
    (
        6.65790464350110377720e0,
        5.46378491116411436990e0,
        1.78482653991729133580e0,
        2.96560571828504891230e-1,
        2.65321895265761230930e-2,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ),
    (
        1.0,
        5.99832206555887937690e-1,
        1.36929880922735805310e-1,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ),
)


def inverse_normal(u: Tensor) -> Tensor:
    """The z of which a normal is smaller with probability ``u`` in (0, 1)."""
    q = u - 0.5
    central = 0.180625 - q * q
    r = (-where(q < 0.0, u, 1.0 - u).log()).sqrt()
    outer = where(r <= 5.0, _ratio(_MIDDLE, r - 1.6), _ratio(_TAIL, r - 5.0))
    return where(central >= 0.0, _ratio(_CENTRE, central) * q, where(q < 0.0, -outer, outer))


def _ratio(coefficients: Sequence[Sequence[float]], x: Tensor) -> Tensor:
    above, below = (_polynomial(part, x) for part in coefficients)
    return above / below


def _polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    value = x * coefficients[-1] + coefficients[-2]
    for coefficient in reversed(coefficients[:-2]):
        value = value * x + coefficient
    return value


def normal_cdf(x: Tensor) -> Tensor:
    """The probability that a normal is smaller."""
    return ((x * sqrt(0.5)).erf() + 1.0) * 0.5
