"""Whether a node fits a cluster: over which index space, in which place, reading what."""

from __future__ import annotations

from dataclasses import dataclass

from engine.compiler.access import Access, is_movement
from engine.compiler.anywhere import is_anywhere
from engine.compiler.cluster import Cluster, Dims, Place, Space, is_aligned, joins
from engine.compiler.extent import common_refinement, product, solid
from engine.core.dtype import bfloat16, bool_, float32, float64
from engine.core.node import Node

MANY_ELEMENTS = 65536  # from here on a reduction to one value is worth a kernel that ends it
FUSED_REDUCTIONS = ("sum", "prod", "max", "min")


@dataclass(frozen=True, slots=True)
class Division:
    """How a reduction divides the dimensions of its operand."""

    outer: Dims
    inner: Dims
    columns: bool
    total: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that a fused kernel could compute: over which dimensions, from which reads."""

    node: Node
    dims: Dims
    reads: list[Access]
    division: Division | None = None
    waiting: int = 1
    """How many nodes wait with it for its reader, itself included."""


def unreadable(
    cluster: Cluster, space: Space, places: dict[Node, Place], access: Access, reader: Place
) -> str:
    """Why a member that varies over ``reader`` cannot read ``access``; empty where it can."""
    own = space.dims if reader is Place.FULL else space.outer
    place = places.get(access.source)
    if access.source.op == "constant" and not access.windows:
        return ""
    if reader is Place.ANYWHERE:
        return ""
    if place is None or place is Place.ANYWHERE:
        if access.windows and reader is Place.OUTER:
            return "it has a border along rows"
        return (
            ""
            if access.over(own) is not None and _is_row(access, space, reader)
            else "it is read across rows"
        )
    if place is Place.STACK:
        return "" if access.rows else "a loop's stack is complete only when the kernel ends"
    if access.rows:
        return "which of its rows is read is known only when the kernel runs"
    if place is Place.COLUMN:
        return "the sum over rows is complete only when the kernel ends"
    if place is Place.FULL and reader is Place.OUTER:
        return "a row's result would depend on one of its elements"
    covered = len(space.dims) if place is Place.FULL else len(space.outer)
    return "" if is_aligned(access, own, covered) else "its elements are read in another order"


def still_readable(
    cluster: Cluster, space: Space, places: dict[Node, Place], division: Division | None
) -> bool:
    """Whether the reads that the cluster has fit a space that is cut or divided further."""
    if (space.outer, space.inner) == (cluster.space.outer, cluster.space.inner):
        return True
    return all(
        not unreadable(cluster, space, places, access, Place.FULL if node.op == "reduce" else places[node])
        for node, reads in cluster.reads.items()
        for access in reads
    )


def _is_row(access: Access, space: Space, reader: Place) -> bool:
    """Whether a read runs along rows with one stride, which divided spaces need."""
    if reader is not Place.FULL or not space.inner:
        return True
    strides, bounds = access.over(space.dims), access.bounds(space.dims)
    if strides is None or bounds is None or any(bounds[len(space.outer) + 1 :]):
        return False
    return joins(space.inner, strides[len(space.outer) :])


def placed(node: Node, reads: list[Access]) -> tuple[Dims, list[Access], Division | None]:
    """The dimensions, reads and division with which ``node`` came into its cluster."""
    if node.op == "reduce":
        return solid(node.inputs[0].shape), reads, reduction_of(node)
    if is_anywhere(node):
        return (), reads, None
    if is_movement(node):
        return common_refinement(solid(reads[0].shape), solid(node.shape)) or (), reads, None
    if node.op in ("pad", "loop", "item"):
        return solid(reads[0].shape) if reads else (), reads, None
    return solid(node.shape), reads, None


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
    if not kept:
        length = product(reduced_dims)
        return Division((), reduced_dims, False, isinstance(length, int) and length >= MANY_ELEMENTS)
    if kept[-1] < axes[0]:
        return Division(kept_dims, reduced_dims, False)
    if axes[-1] < kept[0]:
        return Division(reduced_dims, kept_dims, True)
    return None


def lanes_of(node: Node) -> int | None:
    """The size of the smallest elements that a fused ``node`` works on, 0 for bools; None where it cannot be
    fused.
    """
    sizes = set()
    for dtype in (node.dtype, *(operand.dtype for operand in node.inputs)):
        if dtype is bfloat16:
            return None
        if dtype is not bool_:
            sizes.add(dtype.size)
    if 0 in node.shape:
        return None
    return min(sizes, default=0)


def fit(
    cluster: Cluster, dims: Dims, division: Division | None
) -> tuple[Space, Place, dict[Node, Place]] | str:
    """The cluster's space with room for a node over ``dims``, the node's operand place, everybody's place."""
    places = cluster.places
    if cluster.total or (division is not None and division.total):
        mixed = division is not None and not division.total
        if mixed or cluster.rows or cluster.columns:
            return "a reduction to one value of many elements, and other ones"
    if division is not None:
        space = cluster.space.divided(division.outer, division.inner)
        return "their rows are cut differently" if space is None else (space, Place.FULL, places)
    space = cluster.space.refined(dims)
    if space is not None:
        return space, Place.FULL, places
    if cluster.space.inner is not None:
        outer = Space(cluster.space.outer).refined(dims)
        if outer is None:
            return "their index spaces differ"
        return Space(outer.outer, cluster.space.inner), Place.OUTER, places
    return _extended(cluster, dims)


def _extended(cluster: Cluster, dims: Dims) -> tuple[Space, Place, dict[Node, Place]] | str:
    """The space of a node that repeats the cluster's values along further inner dimensions."""
    for count in range(len(dims)):
        prefix = Space(cluster.space.outer).refined(dims[:count])
        if prefix is not None:
            places: dict[Node, Place] = {
                node: Place.OUTER if place is Place.FULL else place for node, place in cluster.places.items()
            }
            return Space(prefix.outer, dims[count:]), Place.FULL, places
    return "their index spaces differ"
