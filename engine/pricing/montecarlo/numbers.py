"""The numbers of a request as inputs of a graph, so that one plan serves every request of the same form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from engine.core.dtype import DType
from engine.pricing.spec import Spec
from engine.record import Graph
from engine.tensor import Tensor

Getter = Callable[[Spec], float]
Getters = Callable[[Spec], Sequence[float]]


class Inputs(Protocol):
    """The numbers of a request, those of dates for all of them or for one."""

    @property
    def spec(self) -> Spec: ...
    def scalar(self, name: str, get: Getter) -> Tensor: ...
    def column(self, name: str, get: Getters) -> Tensor: ...


class Numbers:
    """Inputs of a graph by name, and how each is read from a request of the form that is recorded."""

    def __init__(self, graph: Graph, spec: Spec, dtype: DType) -> None:
        self.graph = graph
        self._spec = spec
        self.dtype = dtype
        self._inputs: dict[str, Tensor] = {}
        self._getters: dict[str, tuple[Getters, tuple[int, ...], DType]] = {}

    @property
    def spec(self) -> Spec:
        """The request that is recorded."""
        return self._spec

    def scalar(self, name: str, get: Getter) -> Tensor:
        """A number."""
        return self._input(name, lambda spec: [get(spec)], ())

    def column(self, name: str, get: Getters, dates: int | None = None) -> Tensor:
        """Numbers of dates, as [dates, 1]: they broadcast over blocks and paths.

        With ``dates`` they are not asked for while the graph is recorded.
        """
        return self._input(name, get, (dates or len(get(self._spec)), 1))

    def matrix(self, name: str, get: Getters, rows: int) -> Tensor:
        """A matrix with ``rows`` rows, row by row."""
        return self._input(name, get, (rows, len(get(self._spec)) // rows))

    def table(self, name: str, get: Getters, dtype: DType, shape: tuple[int, ...]) -> Tensor:
        """Numbers of another dtype."""
        return self._input(name, get, shape, dtype)

    def _input(self, name: str, get: Getters, shape: tuple[int, ...], dtype: DType | None = None) -> Tensor:
        if name not in self._inputs:
            own = dtype or self.dtype
            self._inputs[name] = self.graph.input(name, shape, own)
            self._getters[name] = get, shape, own
        return self._inputs[name]

    def feeds(self, spec: Spec, names: Sequence[str]) -> dict[str, Tensor]:
        """The inputs' values for a request of the same form."""
        feeds = {}
        for name in names:
            if name in self._getters:
                get, shape, dtype = self._getters[name]
                values = list(get(spec))
                feeds[name] = Tensor(values, dtype).reshape(shape) if shape else Tensor(values[0], dtype)
        return feeds
