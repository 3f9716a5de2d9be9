"""Where a kernel's buffers lie along its space: outer dimensions, and rows along which it runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from engine.compiler.access import Access, Window, whole
from engine.compiler.cluster import Cluster, Dims, Place, joins
from engine.compiler.extent import product
from engine.compiler.fuse import Fusion
from engine.compiler.loopir import Along
from engine.compiler.loops import stack_access
from engine.core.dim import Dim
from engine.core.node import Node


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a buffer's rows begin: ``offset + Σ outer index · stride``, and its stride along a row.

    ``windows`` are those of ``Buffer.windows``, in that order; ``rows`` how many rows lie how far apart.
    """

    source: Node | None
    offset: Dim
    outer: Dims
    inner: Dim
    windows: tuple[Window, ...] = ()
    rows: tuple[Dim, Dim] | None = None


class Layouts:
    """The loops of ``cluster``, whose members ``outputs`` are stored, and the layouts of what it reads."""

    def __init__(self, cluster: Cluster, fusion: Fusion, stored: Collection[Node]) -> None:
        self.cluster = cluster
        self.fusion = fusion
        self.outputs = [
            node
            for node, place in cluster.places.items()
            if node in stored and node not in cluster.partials and place is not Place.ANYWHERE
        ]
        self.outer, self.inner = self._loops()

    def _loops(self) -> tuple[Dims, Dim]:
        """The outer dimensions, neighbours joined where every buffer allows it, and the inner extent."""
        space = self.cluster.space
        accesses = self._accesses()
        found = [self._steps(access, space.dims, space.outer) for access in accesses]
        steps = [step for step in found if step is not None]
        windows = [access.bounds(space.dims) for access, _ in accesses if access.windows]
        apart = {k for bounds in windows if bounds for k, window in enumerate(bounds) if window is not None}
        if space.inner is None:
            dims = _joined(space.dims, steps, apart)
            return (dims[:-1], dims[-1]) if dims else ((), 1)
        count = len(space.outer)
        return _joined(space.outer, [step[:count] for step in steps], apart), product(space.inner)

    def _accesses(self) -> list[tuple[Access, Place]]:
        """What is read from and written to buffers, and where each varies."""
        cluster, found = self.cluster, []
        for node, reads in cluster.reads.items():
            place = Place.FULL if node.op == "reduce" else cluster.places[node]
            found += [
                (access, place)
                for access in reads
                if cluster.places.get(access.source, Place.ANYWHERE) is Place.ANYWHERE
                and (access.source.op != "constant" or access.windows)
            ]
        for local in [self.fusion.loops[node] for node in cluster.places if node in self.fusion.loops]:
            for item in [own for own in local.items.values() if local.is_stack(own)]:
                found.append((stack_access(item, local.dims), Place.FULL))
        plain = [node for node in self.outputs if cluster.places[node] is not Place.STACK]
        return [*found, *[(whole(node), cluster.places[node]) for node in plain]]

    @staticmethod
    def _steps(item: tuple[Access, Place], dims: Dims, outer: Dims) -> Dims | None:
        access, place = item
        if place is Place.FULL:
            return access.over(dims)
        if place is Place.OUTER:
            own = access.over(outer)
            return None if own is None else (*own, *(0,) * (len(dims) - len(outer)))
        own = access.over(dims[len(outer) :])
        return None if own is None else (*(0,) * len(outer), *own)

    def layout(self, access: Access, place: Place) -> tuple[Layout, tuple[int, ...]]:
        """The layout of what is read, and the axes along which it has windows."""
        space = self.cluster.space
        steps = self._steps((access, place), space.dims, space.outer)
        bounds = access.bounds(space.dims) if access.windows else (None,) * len(space.dims)
        assert steps is not None
        assert bounds is not None
        if space.inner is None:
            dims = (*self.outer, self.inner) if self.inner != 1 or space.dims else ()
            joined = _over(space.dims, steps, dims)
            windows = _over(space.dims, bounds, dims)
            layout = Layout(
                *(access.source, access.offset, joined[:-1], joined[-1] if joined else 0),
                *(_present(windows), access.rows),
            )
            return layout, _axes(windows)
        count = len(space.outer)
        inner = steps[count:]
        windows = _over(space.outer, bounds[:count], self.outer)
        if inner:
            edge, rest = bounds[count], product(space.inner[1:])
            windows = (*windows, edge and (edge[0] * rest, edge[1] * rest))
        layout = Layout(
            access.source,
            access.offset,
            _over(space.outer, steps[:count], self.outer),
            inner[-1] if inner else 0,
            _present(windows),
            access.rows,
        )
        return layout, _axes(windows)


def along_of(stride: Dim) -> Along:
    return "dense" if stride == 1 else "repeat" if stride == 0 else "strided"


def _joined(dims: Dims, steps: list[Dims], apart: Collection[int]) -> Dims:
    """``dims`` with neighbours joined where each of ``steps`` runs over them as over one; never those
    ``apart``.
    """
    result: list[Dim] = []
    for k, size in enumerate(dims):
        free = result and k not in apart and k - 1 not in apart
        if free and all(joins((dims[k - 1], size), step[k - 1 : k + 1]) for step in steps):
            result[-1] = result[-1] * size
        else:
            result.append(size)
    return tuple(result)


Item = TypeVar("Item")


def _over(dims: Dims, items: Sequence[Item], joined: Dims) -> tuple[Item, ...]:
    """What ``items`` say along ``joined``, made of neighbours of ``dims``: that of the last neighbour of
    each.
    """
    result: list[Item] = []
    position = 0
    for size in joined:
        total: Dim = dims[position]
        while total != size:
            position += 1
            total = total * dims[position]
        result.append(items[position])
        position += 1
    return tuple(result)


def _present(windows: Sequence[Window | None]) -> tuple[Window, ...]:
    return tuple([window for window in windows if window is not None])


def _axes(windows: Sequence[Window | None]) -> tuple[int, ...]:
    return tuple([axis for axis, window in enumerate(windows) if window is not None])
