"""Random tensors from a counter-based generator.

The generator is a key and a call ordinal. Call number n gives the words of Philox 4x32-10 (Salmon, Moraes,
Dror and Shaw 2011) for (key, n), whatever its shape: a state is two integers, and any call can be repeated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import pi
from typing import Literal

from engine.core.dim import Dim
from engine.core.dtype import DType, float32, float64, int64, uint32
from engine.devices.array import Array
from engine.normal import inverse_normal
from engine.tensor import Tensor
from engine.tensor.cell import apply, from_host, loop_turns
from engine.tensor.movement import shape_of
from engine.tensor.promotion import cast, constant

_SEEDS = 2**64
_WORD = 2**32 - 1
_MOST_INTEGERS = 2**31


@dataclass(frozen=True, slots=True)
class GeneratorState:
    """All that a generator knows: its seed (the key) and the number of calls so far."""

    seed: int
    ordinal: int


class Sampler(ABC):
    """Samples made of the words of successive calls. Where a graph is recorded, shapes may hold symbolic
    sizes; in a loop's body, a call gives other numbers in each turn.
    """

    @abstractmethod
    def _call(self) -> tuple[Tensor, Tensor]:
        """Key and ordinal of the next call."""

    def bits(self, *shape: int | Sequence[int]) -> Tensor:
        """uint32 words, each of the 2³² values equally likely."""
        sizes = shape_of(shape)
        return words(*self._call(), sizes)

    def uniform(
        self, *shape: int | Sequence[int], low: float = 0.0, high: float = 1.0, dtype: DType = float32
    ) -> Tensor:
        """Numbers in [low, high), on a grid of 2⁻²⁴ of that range (2⁻⁵³ for float64)."""
        sizes = shape_of(shape)
        if dtype is float64:
            both = self.bits(2, *sizes)
            unit = (both[0] >> 5).astype(float64) * 2.0**-27 + (both[1] >> 6).astype(float64) * 2.0**-53
        else:
            unit = (self.bits(sizes) >> 8).astype(float32) * 2.0**-24
        return (unit if (low, high) == (0.0, 1.0) else unit * (high - low) + low).astype(dtype)

    def open_uniform(self, *shape: int | Sequence[int], dtype: DType = float32) -> Tensor:
        """Numbers in (0, 1): the middles of 2²³ equal parts (2⁵² for float64)."""
        sizes = shape_of(shape)
        if dtype is float64:
            both = self.bits(2, *sizes)
            whole = (both[0] >> 6).astype(float64) * 2.0**26 + (both[1] >> 6).astype(float64)
            return (whole + 0.5) * 2.0**-52
        return (((self.bits(sizes) >> 9).astype(float32) + 0.5) * 2.0**-23).astype(dtype)

    def normal(
        self,
        *shape: int | Sequence[int],
        mean: float = 0.0,
        std: float = 1.0,
        dtype: DType = float32,
        by: Literal["box-muller", "inverse"] = "box-muller",
    ) -> Tensor:
        """Normal numbers: by the transform of Box and Muller (1958), or by the inverse of the distribution
        of one uniform number each, which keeps their order, as antithetic numbers need it.
        """
        wide = float64 if dtype is float64 else float32
        if by == "inverse":
            unit = inverse_normal(self.open_uniform(*shape, dtype=wide))
        else:
            pair = self.uniform(2, *shape_of(shape), dtype=wide)
            radius = ((1.0 - pair[0]).log() * -2.0).sqrt()
            unit = radius * (pair[1] * (2.0 * pi)).cos()
        return (unit if (mean, std) == (0.0, 1.0) else unit * std + mean).astype(dtype)

    def integers(self, low: int, high: int, shape: Sequence[int]) -> Tensor:
        """Integers from ``low`` below ``high``, int64, one product each (Lemire 2019)."""
        span = high - low
        if not 0 < span <= _MOST_INTEGERS:
            raise ValueError(f"integers from {low} below {high}: there must be from 1 to 2**31 of them")
        drawn = (self.bits(shape).astype(int64) * span) >> 32
        return drawn + low if low else drawn

    def permutation(self, count: int) -> Tensor:
        """The numbers 0 to ``count`` - 1 in random order, int64. Each is placed by how many random words are
        less than its own, which takes count² comparisons.
        """
        keys = self.bits(2, count).astype(int64)
        keys = (keys[0] << 31) + (keys[1] >> 1)
        numbers = apply("iota", (), (count,), 0, int64)
        less = (keys < keys.unsqueeze(1)) | ((keys == keys.unsqueeze(1)) & (numbers < numbers.unsqueeze(1)))
        return less.astype(int64).sum(1)


class Generator(Sampler):
    """A stream of random tensors that ``seed`` (an integer from 0 below 2⁶⁴) determines."""

    def __init__(self, seed: int = 0) -> None:
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Starts the stream of ``seed`` from its beginning."""
        self.state = GeneratorState(seed, 0)

    @property
    def state(self) -> GeneratorState:
        return GeneratorState(self._seed, self._ordinal)

    @state.setter
    def state(self, state: GeneratorState) -> None:
        if not 0 <= state.seed < _SEEDS:
            raise ValueError(f"seed is {state.seed}; it must be an integer from 0 up to 2**64 - 1")
        self._seed, self._ordinal = state.seed, state.ordinal
        self._key = Array.from_list([state.seed & _WORD, state.seed >> 32], (2,), uint32)

    def _call(self) -> tuple[Tensor, Tensor]:
        key, ordinal = from_host(self._next_call, (((2,), uint32), ((), uint32)), self._last_call)
        return key, ordinal

    def _last_call(self) -> None:
        self._ordinal -= 1

    def _next_call(self) -> list[Array]:
        ordinal = self._ordinal
        self._ordinal = ordinal + 1
        return [self._key, Array.from_list([ordinal & _WORD], (), uint32)]


class RecordedGenerator(Sampler):
    """A generator whose state is given to each run of a graph: uint32[3], its key and its ordinal."""

    def __init__(self, state: Tensor) -> None:
        self._state = state
        self.calls = 0

    def _call(self) -> tuple[Tensor, Tensor]:
        self.calls += 1
        return self._state[:2], self._state[2] + (self.calls - 1)


def state_tensor(state: GeneratorState) -> Tensor:
    """What a RecordedGenerator takes."""
    return Tensor([state.seed & _WORD, state.seed >> 32, state.ordinal & _WORD], uint32)


def words(key: Tensor, ordinal: Tensor, shape: Sequence[Dim]) -> Tensor:
    """uint32 words of call ``ordinal``, uint32[], for ``key``, uint32[2]; in a loop, those of its turn."""
    *outer, turn = [constant(0, uint32), *[cast(turn, uint32) for turn in loop_turns()]]
    for number in outer[1:]:  # each turn of an outer loop has a key of its own
        key = apply("random_bits", (key, ordinal, number), (2,))
    return apply("random_bits", (key, ordinal, turn), tuple(shape))


def derived_seed(seed: int, *path: int) -> int:
    """The seed of an independent stream: ``path`` names it (SplitMix64, Steele, Lea and Flood 2014)."""
    for part in path:
        seed = (seed + (part + 1) * 0x9E3779B97F4A7C15) % _SEEDS
        seed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % _SEEDS
        seed = (seed ^ seed >> 27) * 0x94D049BB133111EB % _SEEDS
        seed ^= seed >> 31
    return seed


_default = Generator()


def default_generator() -> Generator:
    """The generator of whoever brings none: layers at initialisation, dropout, ``rand`` and ``randn``."""
    return _default


def manual_seed(seed: int) -> None:
    """Starts the default generator anew."""
    _default.seed(seed)


def rand(*shape: int | Sequence[int], dtype: DType = float32, generator: Generator | None = None) -> Tensor:
    """Uniform numbers in [0, 1) from ``generator``, or from the default one."""
    return (generator or _default).uniform(*shape, dtype=dtype)


def randn(*shape: int | Sequence[int], dtype: DType = float32, generator: Generator | None = None) -> Tensor:
    """Standard normal numbers from ``generator``, or from the default one."""
    return (generator or _default).normal(*shape, dtype=dtype)
