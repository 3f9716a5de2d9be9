"""Epilogues: a kernel that reads a product element by element works on rows that are still in a cache.

The product is written where the kernel puts a result that depends on it, or to a buffer of its own where
someone else reads it too; each element is finished before the kernel sees it, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from engine.compiler.cluster import Cluster, Place, Single, Space, Step, is_aligned
from engine.compiler.extent import solid
from engine.compiler.fuse import Fusion
from engine.compiler.lower import Lowered
from engine.compiler.steps import DotStep
from engine.core.dtype import float32, float64
from engine.core.node import Node
from engine.emit.dot import fused_dot_name


def attach(fusion: Fusion, apart: Set[Node]) -> None:
    """Makes each product part of the kernel that reads it first, where that is possible.

    Kernels that compute one of ``apart`` stay as they are.
    """
    readers: dict[Node, list[Step]] = {}
    for step in fusion.steps:
        for source in {access.source: None for access in step.accesses}:
            if source.op == "dot":
                readers.setdefault(source, []).append(step)
    gone: set[Step] = set()
    for step in reversed(fusion.steps):
        if isinstance(step, Single) and step.node in readers and not step.fixed:
            cluster = _reader(fusion, step.node, readers[step.node])
            if cluster is not None and cluster.product is None and apart.isdisjoint(cluster.places):
                space = _space(fusion, cluster, step.node)
                if space is not None:
                    cluster.space, cluster.product = space, step
                    fusion.home[step.node] = cluster
                    gone.add(step)
    fusion.steps = [step for step in fusion.steps if step not in gone]


def _reader(fusion: Fusion, dot: Node, readers: Sequence[Step]) -> Cluster | None:
    """The one kernel that reads a product before all others do, so that these find it computed.

    Nothing between the two depends on the product then, and moving it to its reader's level makes no circle.
    Products of a batch are for chains.
    """
    level = min([step.level for step in readers])
    first = [step for step in readers if step.level == level]
    found = first[0]
    if len(first) > 1 or not isinstance(found, Cluster) or found.columns or found.fixed:
        return None
    return found if dot.dtype in (float32, float64) and not solid(dot.shape[:-2]) else None


def _space(fusion: Fusion, cluster: Cluster, dot: Node) -> Space | None:
    """The cluster's space divided into the product's rows; None where it does not run along them."""
    *rows, columns = dot.shape
    if columns == 1:
        return None
    space = cluster.space.divided(solid(tuple(rows)), (columns,))
    if space is None or not fusion.fits(cluster, space):
        return None
    reads = [(node, access) for node, own in cluster.reads.items() for access in own if access.source is dot]
    along = [node.op == "reduce" or cluster.places[node] is Place.FULL for node, _ in reads]
    dims = space.dims
    return space if all(along) and all(is_aligned(access, dims, len(dims)) for _, access in reads) else None


def joined(
    cluster: Cluster, lowered: Lowered, kernel: str, is_stored: bool, takeovers: Sequence[tuple[Node, Node]]
) -> DotStep:
    """The step of a kernel with a product, which ``is_stored`` where others read it too.

    ``takeovers`` are those of the kernel alone. A result may take over the product's place, and then nothing
    else's: it holds the product while the kernel reads its other operands.
    """
    product = cluster.product
    assert product is not None
    dot = product.node
    taken = {new for old, new in takeovers if old is not dot}
    heirs = [new for old, new in takeovers if old is dot and new.dtype is dot.dtype]
    into = dot
    if heirs and not is_stored:
        into = next((heir for heir in heirs if heir not in taken), heirs[0])
        layouts = [replace(own, source=into) if own.source is dot else own for own in lowered.layouts]
        lowered = replace(lowered, layouts=tuple(layouts))
    operands = [access.source for access in product.accesses]
    kept = [
        (old, new) for old, new in takeovers if old is not dot and new is not into and old not in operands
    ]
    a, b = product.accesses
    nodes = (dot, *cluster.places)
    name = fused_dot_name(kernel)
    return DotStep(cluster.level, False, nodes, dot, (a, b), into, lowered, kernel, name, tuple(kept))
