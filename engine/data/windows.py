"""Training windows: runs of tokens at positions that a seed and a step number determine."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from engine.random import Generator, GeneratorState, derived_seed
from engine.tensor import Tensor, arange, no_grad
from engine.tensor.cell import apply
from engine.tensor.promotion import as_tensor

VALIDATION_SHARE = 0.1
_STREAM = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """int32 tokens (rows, length), and for each the token that follows it."""

    tokens: Tensor
    targets: Tensor


class Windows:
    """Windows of ``length`` tokens and their successors, cut from one sequence.

    The batch of a step depends on the seed and the step alone, so the step number is the whole cursor.
    Raises ValueError where the sequence is too short for one window.
    """

    def __init__(self, ids: array[int], length: int, seed: int) -> None:
        if len(ids) <= length:
            raise ValueError(
                f"{len(ids)} tokens are too few for windows of {length}: give at least {length + 1}, "
                "or make seq_len smaller"
            )
        self.count = len(ids) - length
        self.length = length
        self._seed = derived_seed(seed, _STREAM)
        self._ids = Tensor(ids)
        self._offsets = arange(length + 1)

    def batch(self, step: int, rows: int) -> Batch:
        """``rows`` windows at random positions, each position equally likely."""
        generator = Generator()
        self.seek(generator, step)
        return self.draw(generator, rows)

    def seek(self, generator: Generator, step: int) -> None:
        """Puts ``generator`` where ``draw`` gives the batch of ``step``."""
        generator.state = GeneratorState(self._seed, step)

    def draw(self, generator: Generator, rows: int) -> Batch:
        """``rows`` windows at random positions."""
        return self.at(generator.integers(0, self.count, (rows,)))

    def at(self, starts: Tensor | Sequence[int]) -> Batch:
        """The windows that begin at ``starts``, int64 (rows,)."""
        with no_grad():
            places = as_tensor(starts).unsqueeze(1) + self._offsets
            rows = apply("gather", (self._ids, places), "checked")
            return Batch(rows[:, :-1], rows[:, 1:])


def split(ids: array[int], length: int) -> tuple[array[int], array[int]]:
    """Training tokens and held-out ones: the last tenth, but at least one window of ``length``.

    Raises ValueError where the text is too short for one window of each.
    """
    held = max(int(len(ids) * VALIDATION_SHARE), length + 1)
    if len(ids) - held <= length:
        raise ValueError(
            f"the text has {len(ids)} tokens; windows of {length} need at least {2 * (length + 1)}: half to "
            "train on and half held out. Give a longer text or make seq_len smaller"
        )
    return ids[: len(ids) - held], ids[len(ids) - held :]


def validation_windows(ids: array[int], length: int, count: int) -> list[int]:
    """At most ``count`` starting positions, evenly spaced over the held-out tokens."""
    places = len(ids) - length
    number = min(count, places)
    return [i * places // number for i in range(number)]
