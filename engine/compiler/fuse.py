"""Fusion: one pass over the graph in which each node joins the kernel of an operand or begins its own.

Legality is by level. A cluster's level is one more than the highest of what it reads, and a node may join it only
when everything else that the node reads comes from lower levels; so no cycle can arise, and no graph search is
needed. Nothing here reads a size: symbolic dimensions are compared as polynomials.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.compiler.access import Access, is_movement, resolve
from engine.compiler.cluster import Cluster, Dims, Place, Refusal, Single, Space, is_aligned, joins
from engine.compiler.extent import solid
from engine.core.dtype import bfloat16, bool_, float32, float64
from engine.core.node import Node
from engine.core.opdef import OPS

MOST_NODES = 160  # in one cluster: its build time is linear in them, and registers spill
FUSED_REDUCTIONS = ("sum", "prod", "max", "min")

Step = Cluster | Single


class Fusion:
    """``steps`` in an order in which they can run; ``home`` tells where a node is computed."""

    def __init__(self, order: Sequence[Node], leaders: dict[Node, Node]) -> None:
        self.leaders = leaders
        self.steps: list[Step] = []
        self.home: dict[Node, Step] = {}
        self.refusals: list[Refusal] = []
        self._siblings: dict[tuple[int, Dims], Cluster] = {}
        for node in order:
            self._place(node)
        self.steps.sort(key=lambda step: step.level)

    def read(self, operand: Node) -> Access:
        """How an operand is read: from which node's buffer or register, along which strides."""
        return resolve(operand, self.leaders)

    def level(self, node: Node) -> int:
        step = self.home.get(node)
        return step.level if step else 0

    # ---- one node

    def _place(self, node: Node) -> None:
        row = OPS[node.op]
        if row.kind == "leaf" and not node.inputs and node.op != "iota":
            return
        if is_movement(node):
            access = self.read(node)
            if access.source is node:
                self._single(node)
            return
        if row.kind == "elementwise" and lanes_of(node) is not None:
            self._fuse(node, solid(node.shape), None)
        elif node.op == "reduce" and (division := reduction_of(node)) is not None:
            self._fuse(node, solid(node.inputs[0].shape), division)
        else:
            self._single(node)

    def _single(self, node: Node) -> None:
        operands = [self.read(node.inputs[0])] if is_movement(node) else [self.read(x) for x in node.inputs]
        if is_movement(node):
            operands = [resolve(node.inputs[0], self.leaders)]
        level = 1 + max([self.level(access.source) for access in operands], default=0)
        self._add(Single(level, node, operands), node)

    def _add(self, step: Step, node: Node) -> None:
        if node not in self.home or self.home[node] is not step:
            self.home[node] = step
        if isinstance(step, Single) or len(step.places) == 1:
            self.steps.append(step)

    def _fuse(self, node: Node, dims: Dims, division: Division | None) -> None:
        reads = [self.read(operand) for operand in node.inputs]
        sources = [access.source for access in reads if access.source.op != "constant"]
        top = max([self.level(source) for source in sources], default=0)
        cluster = self._candidate(node, sources, top)
        if cluster is not None and self._join(cluster, node, dims, reads, division):
            return
        level = top + 1
        sibling = self._siblings.get((level, dims))
        if sibling is not None and self._shares(sibling, sources):
            if self._join(sibling, node, dims, reads, division):
                return
        fresh = Cluster(level, Space(dims))
        if not self._join(fresh, node, dims, reads, division):
            self._single(node)
            return
        self._siblings[level, dims] = fresh

    def _candidate(self, node: Node, sources: list[Node], top: int) -> Cluster | None:
        """The one cluster on the highest level among the operands; others there would close a circle."""
        homes = {self.home[source] for source in sources if self.level(source) == top and source in self.home}
        clusters = [home for home in homes if isinstance(home, Cluster)]
        if len(homes) != 1 or not clusters:
            if len(homes) > 1:
                self._refuse(sources[0], node, "its operands come from kernels that run side by side")
            return None
        return clusters[0]

    @staticmethod
    def _shares(cluster: Cluster, sources: Sequence[Node]) -> bool:
        wanted = set(sources)
        return any(access.source in wanted for reads in cluster.reads.values() for access in reads)

    def _refuse(self, producer: Node, consumer: Node, reason: str) -> bool:
        self.refusals.append(Refusal(producer, consumer, reason))
        return False

    # ---- joining

    def _join(
        self, cluster: Cluster, node: Node, dims: Dims, reads: list[Access], division: Division | None
    ) -> bool:
        """Adds ``node`` to ``cluster`` if that is legal; else keeps the reason."""
        anchor = reads[0].source if reads else node
        if len(cluster.places) >= MOST_NODES:
            return self._refuse(anchor, node, f"the kernel already has {MOST_NODES} operations")
        lanes = lanes_of(node) or 0
        if cluster.lanes and lanes and cluster.lanes != lanes:
            return self._refuse(anchor, node, f"elements of {cluster.lanes} and {lanes} bytes")
        if cluster.lanes == 8 and node.op == "select" and node.dtype is bool_:
            return self._refuse(anchor, node, "a selection of bools beside elements of 8 bytes")
        fitted = fit(cluster, dims, division)
        if isinstance(fitted, str):
            return self._refuse(anchor, node, fitted)
        space, operand_place, places = fitted
        for access in reads:
            why = self._unreadable(cluster, space, places, access, operand_place)
            if why:
                return self._refuse(access.source, node, why)
        if not self._still_readable(cluster, space, places, division):
            return self._refuse(anchor, node, "what the kernel reads already does not run along these rows")
        cluster.space, cluster.lanes = space, cluster.lanes or lanes
        cluster.places = places
        cluster.rows = cluster.rows or (division is not None and not division.columns)
        cluster.columns = cluster.columns or (division is not None and division.columns)
        result = operand_place if division is None else Place.COLUMN if division.columns else Place.OUTER
        cluster.places[node] = result
        cluster.reads[node] = reads
        self._add(cluster, node)
        return True

    def _unreadable(
        self, cluster: Cluster, space: Space, places: dict[Node, Place], access: Access, reader: Place
    ) -> str:
        """Why a member that varies over ``reader`` cannot read ``access``; empty where it can."""
        own = space.dims if reader is Place.FULL else space.outer
        place = places.get(access.source)
        if access.source.op == "constant":
            return ""
        if place is None:
            return "" if access.over(own) is not None and _is_row(access, space, reader) else "it is read across rows"
        if place is Place.COLUMN:
            return "the sum over rows is complete only when the kernel ends"
        if place is Place.FULL and reader is Place.OUTER:
            return "a row's result would depend on one of its elements"
        covered = len(space.dims) if place is Place.FULL else len(space.outer)
        return "" if is_aligned(access, own, covered) else "its elements are read in another order"

    def _still_readable(
        self, cluster: Cluster, space: Space, places: dict[Node, Place], division: Division | None
    ) -> bool:
        """Whether the reads that the cluster has fit a space that is cut or divided further."""
        if (space.outer, space.inner) == (cluster.space.outer, cluster.space.inner):
            return True
        return all(
            not self._unreadable(cluster, space, places, access, places[node])
            if places[node] is not Place.COLUMN and not (node.op == "reduce")
            else not self._unreadable(cluster, space, places, access, Place.FULL)
            for node, reads in cluster.reads.items()
            for access in reads
        )


def _is_row(access: Access, space: Space, reader: Place) -> bool:
    """Whether a read runs along rows with one stride, which divided spaces need."""
    if reader is not Place.FULL or not space.inner:
        return True
    strides = access.over(space.dims)
    return strides is not None and joins(space.inner, strides[len(space.outer) :])


class Division:
    """How a reduction divides the dimensions of its operand."""

    __slots__ = ("columns", "inner", "outer")

    def __init__(self, outer: Dims, inner: Dims, columns: bool) -> None:
        self.outer = outer
        self.inner = inner
        self.columns = columns


def reduction_of(node: Node) -> Division | None:
    """The division of a reduction that fused kernels know: of floats, over leading or over trailing axes."""
    kind, axes = node.attrs
    x = node.inputs[0]
    if kind not in FUSED_REDUCTIONS or x.dtype not in (float32, float64):
        return None
    axes = [axis for axis in sorted(axes) if x.shape[axis] != 1]
    kept = [axis for axis in range(x.rank) if axis not in axes and x.shape[axis] != 1]
    if not axes or 0 in x.shape:
        return None
    reduced_dims, kept_dims = tuple(x.shape[a] for a in axes), tuple(x.shape[a] for a in kept)
    if not kept or kept[-1] < axes[0]:
        return Division(kept_dims, reduced_dims, False)
    if axes[-1] < kept[0]:
        return Division(reduced_dims, kept_dims, True)
    return None


def lanes_of(node: Node) -> int | None:
    """The size of the elements that a fused ``node`` works on, 0 for bools; None where it cannot be fused."""
    sizes = set()
    for dtype in (node.dtype, *(operand.dtype for operand in node.inputs)):
        if dtype is bfloat16:
            return None
        if dtype is not bool_:
            sizes.add(dtype.size)
    if len(sizes) > 1 or 0 in node.shape:
        return None
    return sizes.pop() if sizes else 0


def fit(
    cluster: Cluster, dims: Dims, division: Division | None
) -> tuple[Space, Place, dict[Node, Place]] | str:
    """The cluster's space with room for a node over ``dims``, the node's operand place, everybody's place."""
    places = cluster.places
    if division is not None:
        if cluster.rows if division.columns else cluster.columns:
            return "one kernel does not reduce along rows and along columns"
        space = cluster.space.divided(division.outer, division.inner)
        if space is None:
            return "their rows are cut differently"
        if division.columns and Place.OUTER in places.values():
            return "one kernel does not reduce along rows and along columns"
        return space, Place.FULL, dict(places)
    space = cluster.space.refined(dims)
    if space is not None:
        return space, Place.FULL, dict(places)
    if cluster.columns:
        return "their index spaces differ"
    if cluster.space.inner is not None:
        outer = Space(cluster.space.outer).refined(dims)
        if outer is None:
            return "their index spaces differ"
        return Space(outer.outer, cluster.space.inner), Place.OUTER, dict(places)
    return _extended(cluster, dims)


def _extended(cluster: Cluster, dims: Dims) -> tuple[Space, Place, dict[Node, Place]] | str:
    """The space of a node that repeats the cluster's values along further inner dimensions."""
    for count in range(len(dims)):
        prefix = Space(cluster.space.outer).refined(dims[:count])
        if prefix is not None:
            return Space(prefix.outer, dims[count:]), Place.FULL, dict.fromkeys(cluster.places, Place.OUTER)
    return "their index spaces differ"


