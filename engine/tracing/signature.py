"""What of a call's arguments a plan depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.core.dim import Dim, Shape, symbol
from engine.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Signature:
    """Shape, dtype and more of each argument.

    Leading sizes from 2 on are symbols, one for all that are equal; ``leaders`` are the arguments that give
    each its size. ``kinds`` holds dtypes, which require a gradient, and which are one and the same Tensor.
    """

    shapes: tuple[Shape, ...]
    leaders: tuple[int, ...]
    kinds: tuple[Any, ...]

    def sizes(self, tensors: Sequence[Tensor]) -> tuple[int, ...]:
        """The size of each symbol."""
        return tuple([tensors[leader].shape[0] for leader in self.leaders])

    def named(self, sizes: Sequence[int]) -> dict[str, int]:
        """The sizes by the names of their symbols."""
        return {_name(i): size for i, size in enumerate(sizes)}


def form(tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """All that a signature is made of: equal forms have equal signatures."""
    if len(tensors) < 2:
        return tuple([(x.dtype, x._requires_grad, x.shape) for x in tensors])
    places: dict[int, int] = {}
    return tuple(
        [(x.dtype, x._requires_grad, x.shape, places.setdefault(id(x), i)) for i, x in enumerate(tensors)]
    )


def signature(tensors: Sequence[Tensor], symbols: int) -> Signature:
    """The signature of ``tensors`` with at most so many symbols; other sizes are numbers."""
    shapes: list[Shape] = []
    leaders: dict[int, int] = {}
    places: dict[int, int] = {}
    kinds = []
    for i, x in enumerate(tensors):
        kinds.append((x.dtype, x._requires_grad, places.setdefault(id(x), i)))
        shape: Shape = x.shape
        if shape and x.shape[0] > 1 and len(leaders) < symbols:
            leaders.setdefault(x.shape[0], i)
        if shape and x.shape[0] in leaders:
            leading: Dim = symbol(_name(list(leaders).index(x.shape[0])))
            shape = (leading, *shape[1:])
        shapes.append(shape)
    return Signature(tuple(shapes), tuple(leaders.values()), tuple(kinds))


def _name(number: int) -> str:
    return f"n{number}"
