"""Parameters: an immutable mapping from names to Tensors, with arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from engine.tensor import Tensor


class Parameters(Mapping[str, Tensor]):
    """Named Tensors that are computed with as one: ``weights - gradients * 0.1``.

    Operators take Parameters of the same names, or one operand for all. Older Parameters stay usable.
    """

    __slots__ = ("_tensors",)

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self._tensors[name]
        except KeyError:
            raise KeyError(f"no parameter {name!r}; the names are {', '.join(self._tensors)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def map(self, function: Callable[..., Tensor], *others: Any) -> Parameters:
        """``function`` of each Tensor and of what ``others``, Parameters or one operand for all, hold for it.

        Raises KeyError where the names differ.
        """
        for other in others:
            if isinstance(other, Parameters) and other.keys() != self.keys():
                raise KeyError(
                    f"names differ: {sorted(self.keys() ^ other.keys())} are only in one of the two"
                )
        return Parameters(
            {
                name: function(
                    x, *[other[name] if isinstance(other, Parameters) else other for other in others]
                )
                for name, x in self._tensors.items()
            }
        )

    def replace(self, **tensors: Tensor) -> Parameters:
        """The same with other Tensors under some of the names."""
        unknown = tensors.keys() - self.keys()
        if unknown:
            raise KeyError(f"no parameters {sorted(unknown)}; the names are {', '.join(self._tensors)}")
        return Parameters({**self._tensors, **tensors})

    def __neg__(self) -> Parameters:
        return self.map(lambda x: -x)

    def __add__(self, other: Any) -> Parameters:
        return self.map(lambda x, y: x + y, other)

    def __sub__(self, other: Any) -> Parameters:
        return self.map(lambda x, y: x - y, other)

    def __mul__(self, other: Any) -> Parameters:
        return self.map(lambda x, y: x * y, other)

    def __truediv__(self, other: Any) -> Parameters:
        return self.map(lambda x, y: x / y, other)

    def __radd__(self, other: Any) -> Parameters:
        return self.map(lambda x, y: y + x, other)

    def __rsub__(self, other: Any) -> Parameters:
        return self.map(lambda x, y: y - x, other)

    def __rmul__(self, other: Any) -> Parameters:
        return self.map(lambda x, y: y * x, other)

    def __rtruediv__(self, other: Any) -> Parameters:
        return self.map(lambda x, y: y / x, other)

    def __repr__(self) -> str:
        lines = [f"  {name}: {x.dtype}{list(x.shape)}" for name, x in self._tensors.items()]
        return "\n".join(["Parameters", *lines])
