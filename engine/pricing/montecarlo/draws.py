"""Random numbers by counter: which word of the generator a path, a date and a factor read.

Blocks of 4,096 paths are drawn ``group`` at a time, long paths in four ``parts`` of 1,024 lanes, whose
arrays fit a core's cache. Each part of a group has its own key, derived from the seed and the part's number;
in it, the pair k of uniforms of lane p in block b has the four words of the generator's block b·lanes + p in
turn k, whether a loop goes along the path or draws what arrays hold. Normals are of call 0, other uniforms of
call 1. Paths of a single normal share a pair: lane p has its first half, lane p + lanes / 2 the second. So a
path gets the same draws whatever runs beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt

from engine.core.dim import Dim
from engine.core.dtype import float64, int64, uint32
from engine.pricing.montecarlo.blocks import BLOCK
from engine.random import derived_seed
from engine.tensor import Tensor, cat
from engine.tensor.cell import apply
from engine.tensor.promotion import as_tensor
from engine.tracing.regions import Turn, loop

PAIRS_A_GROUP = 64  # pairs of uniforms of one path for which a group is a single block
LONG = 16  # pairs from which on a path is long
LONG_LANES = 1024
_BITS_OF_ONE = 0x3FF0000000000000
RNG = "philox4x32-10"
LAYOUT = (
    "key = splitmix64(seed, stream, part); uniforms 2k and 2k + 1 of a path, of 52 bits each, are words "
    "(0, 1) and (2, 3) of the block block·lanes + lane of turn k, of call 0 for normals and 1 for the others"
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

    @property
    def lanes(self) -> int:
        """Paths of a block that are computed together."""
        return LONG_LANES if self.pairs >= LONG else BLOCK

    @property
    def parts(self) -> int:
        """Of a group, one after the other."""
        return BLOCK // self.lanes

    @property
    def is_single(self) -> bool:
        """Whether a path takes a single normal."""
        return self.normals == 1 and self.uniforms == 0


def key_of(seed: int, stream: int, part: int) -> Tensor:
    """The key of a part, counted through all groups: uint32[2]."""
    derived = derived_seed(seed, stream, part)
    return Tensor([derived & 0xFFFFFFFF, derived >> 32], uint32)


def pair_of_uniforms(
    key: Tensor, call: int, turn: Tensor | int, blocks: Dim, lanes: int
) -> tuple[Tensor, Tensor]:
    """Pair ``turn`` of each path: two float64[blocks, lanes] in (0, 1)."""
    counter = (Tensor(call, uint32), as_tensor(turn).astype(uint32))
    bits = apply("random_bits", (key, *counter), (blocks, lanes, 4))
    return _unit(bits[..., 0], bits[..., 1]), _unit(bits[..., 2], bits[..., 3])


def drawn(pair: Callable[[Tensor], tuple[Tensor, Tensor]], count: int) -> Tensor:
    """The first ``count`` numbers of the pairs of successive turns, [blocks, count, lanes]."""
    first, second = loop((count + 1) // 2, lambda turn, carries: Turn(carries, pair(turn)), ()).stacked
    turns, blocks, lanes = first.shape
    both = cat([first.unsqueeze(1), second.unsqueeze(1)], 1).reshape(2 * turns, blocks, lanes)
    return both[:count].permute(1, 0, 2)


def _unit(high: Tensor, low: Tensor) -> Tensor:
    """(k + 1/2) / 2⁵², never 0 nor 1, of 26 bits of each word: 1 + k / 2⁵² has k as its fraction."""
    k = (high >> 6).astype(int64) << 26 | (low >> 6).astype(int64)
    return apply("bitcast", (k | _BITS_OF_ONE,), float64) - (1.0 - 2.0**-53)


def box_muller(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Two independent normals of two uniforms (Box and Muller 1958)."""
    radius = (first.log() * -2.0).sqrt()
    angle = second * (2.0 * pi)
    return radius * angle.cos(), radius * angle.sin()


def normal_cdf(x: Tensor) -> Tensor:
    """The probability that a normal is smaller."""
    return ((x * sqrt(0.5)).erf() + 1.0) * 0.5
