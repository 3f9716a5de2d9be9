"""What fusion decides: which nodes share a kernel, over which index space."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from engine.compiler.access import Access, whole
from engine.compiler.extent import common_refinement, contiguous, product, split
from engine.core.dim import Dim
from engine.core.node import Node

Dims = tuple[Dim, ...]


class Place(Enum):
    """Where a member varies: over the whole space, over its outer dimensions, or (a column's result) its
    inner. What is computed anywhere has no place of its own: its elements follow from their numbers. A stack
    has a row over the whole space for each turn of a loop.
    """

    FULL = "full"
    OUTER = "outer"
    COLUMN = "column"
    ANYWHERE = "anywhere"
    STACK = "stack"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why two nodes do not share a kernel, for ``describe``."""

    producer: Node
    consumer: Node
    reason: str


@dataclass(slots=True)
class Space:
    """Outer dimensions, and inner ones once a reduction or a broadcast has divided the space.

    Rows run over the inner dimensions; each outer index is one row. ``inner`` is None while undivided.
    """

    outer: Dims
    inner: Dims | None = None

    @property
    def dims(self) -> Dims:
        return self.outer + (self.inner or ())

    def refined(self, dims: Dims) -> Space | None:
        """This space cut so that ``dims`` follows from it as a whole; None where they don't agree."""
        both = common_refinement(self.dims, dims)
        if both is None:
            return None
        if self.inner is None:
            return Space(both)
        halves = split((product(self.outer), product(self.inner)), both) if self.outer else None
        if not self.outer:
            return Space((), both)
        if not self.inner:
            return Space(both, ())
        return None if halves is None else Space(both[: halves[0].stop], both[halves[0].stop :])

    def divided(self, outer: Dims, inner: Dims) -> Space | None:
        """This space with that division between rows and what they run over."""
        if self.inner is not None:
            rows, along = common_refinement(self.outer, outer), common_refinement(self.inner, inner)
            return None if rows is None or along is None else Space(rows, along)
        both = common_refinement(self.outer, outer + inner)
        if both is None:
            return None
        if not outer or not inner:
            return Space(both, ()) if not inner else Space((), both)
        halves = split((product(outer), product(inner)), both)
        return None if halves is None else Space(both[: halves[0].stop], both[halves[0].stop :])


@dataclass(slots=True, eq=False)
class Cluster:
    """Nodes of one kernel.

    ``fixed`` ones depend on no input and run once, when sizes are bound. ``level`` orders clusters: what a
    cluster reads comes from lower levels, so clusters never wait for each other in a circle. ``rows`` and
    ``columns`` say which ways its reductions run, ``total`` that they make one of many elements. ``lanes`` is
    the size in bytes of its smallest elements, 0 while only bools are in it.
    """

    level: int
    space: Space
    fixed: bool = False
    lanes: int = 0
    rows: bool = False
    columns: bool = False
    total: bool = False
    places: dict[Node, Place] = field(default_factory=dict)
    reads: dict[Node, list[Access]] = field(default_factory=dict)
    partials: dict[Node, Node] = field(default_factory=dict)
    product: Single | None = None
    """A dot that it takes in as its epilogue."""

    @property
    def nodes(self) -> list[Node]:
        return list(self.places)

    @property
    def accesses(self) -> list[Access]:
        """What it reads from buffers."""
        own = [access for own in self.reads.values() for access in own if access.source not in self.places]
        return own if self.product is None else [*own, *self.product.accesses]

    @property
    def collects(self) -> bool:
        """Whether its reductions over rows, or over everything, are ended by another kernel."""
        return self.total or self.by_lanes

    @property
    def by_lanes(self) -> bool:
        """Whether reductions over rows are collected by lanes, beside what needs whole rows."""
        return self.columns and (self.rows or Place.OUTER in self.places.values())


@dataclass(slots=True, eq=False)
class Single:
    """A node with a kernel of its own, that of the per-node executor."""

    level: int
    node: Node
    accesses: list[Access]
    fixed: bool = False

    @property
    def nodes(self) -> list[Node]:
        return [self.node]


@dataclass(slots=True, eq=False)
class Hosted(Single):
    """A loop or a condition that the plan runs as plans within it; ``items`` are those of its results that
    are read.
    """

    items: list[Node] = field(default_factory=list)

    @property
    def nodes(self) -> list[Node]:
        return self.items


@dataclass(slots=True, eq=False)
class Finish:
    """The end of a reduction that another kernel has collected in ``partial``: over ``rows`` by lanes, or
    over ``length`` elements by blocks.
    """

    level: int
    node: Node
    partial: Node
    rows: Dim
    length: Dim | None = None
    fixed: bool = False

    @property
    def nodes(self) -> list[Node]:
        return [self.node]

    @property
    def accesses(self) -> list[Access]:
        return [whole(self.partial)]


Step = Cluster | Single | Finish


def is_aligned(access: Access, dims: Dims, own: int) -> bool:
    """Whether an index of ``dims`` reads its own element of a value over the first ``own`` of them."""
    strides = access.over(dims)
    expected = contiguous(dims[:own]) + (0,) * (len(dims) - own)
    if strides is None or access.offset != 0 or access.windows or access.rows:
        return False
    return all(size == 1 or a == b for size, a, b in zip(dims, strides, expected, strict=True))


def joins(dims: Dims, strides: Dims) -> bool:
    """Whether ``strides`` step over ``dims`` as over one dimension."""
    return all(
        outer == size * inner for outer, size, inner in zip(strides, dims[1:], strides[1:], strict=False)
    )


def partial_elements(rows: int, columns: int) -> int:
    """The size of what lanes collect of ``rows``: for each block of 4,096 rows the lanes that it has."""
    return block_count(rows) * min(rows, 64) * columns


def block_count(length: int) -> int:
    """The number of blocks in the tree of a reduction."""
    return -(-length // 4096)
