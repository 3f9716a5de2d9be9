"""Values that a later kernel computes again rather than reads: where it costs little and loads no more.

Where several stored values are cheap functions of one costly value (1 + tanh, 1 - tanh²), that one is stored
in their place.

Precondition: steps in an order in which they can run. Postcondition: some clusters hold copies of cheap nodes
of earlier ones, which no longer have what nobody reads; those of which nothing is left are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from engine.compiler.cluster import Cluster, Place, Step, is_aligned
from engine.compiler.extent import product
from engine.core.node import Node
from engine.core.opdef import OPS

if TYPE_CHECKING:
    from engine.compiler.fuse import Fusion

MOST_COST = 8  # additions an element


def recompute(fusion: Fusion, steps: Sequence[Step], targets: Collection[Node]) -> None:
    """Copies nodes into the clusters that read them, where all their readers can do so."""
    readers: dict[Node, list[Step]] = {}
    for step in steps:
        for source in {access.source: None for access in step.accesses}:
            readers.setdefault(source, []).append(step)
    kept = {*targets}
    ends = {*readers, *kept}  # values at which computing again stops: they are stored
    for step in steps:
        if not isinstance(step, Cluster) or step.fixed:
            continue
        stored = [
            own
            for own, place in step.places.items()
            if place is Place.FULL and own not in kept and _only_clusters(readers.get(own, ()))
        ]
        shared = _shared(step, stored, ends)
        ends |= shared
        for node in stored:
            _copy(fusion, step, node, readers, ends)
        ends -= shared - readers.keys()
    for step in reversed(steps):
        if isinstance(step, Cluster) and not step.fixed:
            _prune(fusion, step, readers, kept)


def _prune(fusion: Fusion, step: Cluster, readers: dict[Node, list[Step]], kept: Collection[Node]) -> None:
    """Takes out of ``step`` what neither it nor a later step reads."""
    uses = Counter([access.source for reads in step.reads.values() for access in reads])
    before = {*uses}
    for node in reversed([*step.places]):
        if OPS[node.op].kind != "elementwise" or uses[node] or node in kept or readers.get(node):
            continue
        uses.subtract([access.source for access in step.reads[node]])
        fusion.take_out(step, node)
    for source in before:
        if not uses[source] and step in readers.get(source, ()):
            readers[source].remove(step)


def _only_clusters(steps: Collection[Step]) -> bool:
    return bool(steps) and all(isinstance(step, Cluster) for step in steps)


def _copy(
    fusion: Fusion, home: Cluster, node: Node, readers: dict[Node, list[Step]], ends: set[Node]
) -> None:
    recipe = _recipe(home, node, ends)
    if recipe is None:
        return
    clusters = [reader for reader in readers[node] if isinstance(reader, Cluster)]
    inside = {*recipe}
    needs = [
        a.source
        for own in recipe
        for a in home.reads[own]
        if a.source not in inside and _is_large(home, a.source)
    ]
    loads = 0
    for cluster in clusters:
        have = {access.source for access in cluster.accesses} | cluster.places.keys()
        fresh = {*needs} - have
        loads += len(fresh)
        if any(source.op == "dot" for source in fresh):  # what follows a product is the product's to compute
            return
        if not all(_reads_own_element(cluster, node)):
            return
    if loads > len(clusters):
        return
    before = [(cluster.places, cluster.reads) for cluster in clusters]
    if not all(fusion.adopt(cluster, recipe, home) for cluster in clusters):
        for cluster, (places, reads) in zip(clusters, before, strict=True):
            cluster.places, cluster.reads = places, reads
        return
    del readers[node]
    ends.remove(node)
    for cluster in clusters:
        for source in {access.source: None for copied in recipe for access in home.reads[copied]}:
            if source not in inside and cluster not in readers.setdefault(source, []):
                readers[source].append(cluster)
                ends.add(source)


def _shared(home: Cluster, stored: Collection[Node], ends: Collection[Node]) -> set[Node]:
    """Costly values that are not stored and take fewer bytes than those of ``stored`` that follow cheaply."""
    bytes_of: dict[Node, int] = {}
    for node in stored:
        for source in _costly(home, node, ends):
            bytes_of[source] = bytes_of.get(source, 0) + node.dtype.size
    return {source for source, nbytes in bytes_of.items() if nbytes > source.dtype.size}


def _costly(home: Cluster, node: Node, ends: Collection[Node]) -> set[Node]:
    """The elementwise values at which a search for what ``node`` is a cheap function of has to stop."""
    found: set[Node] = set()
    pending, cost = [node], 0
    while pending:
        own = pending.pop()
        if OPS[own.op].kind != "elementwise":
            return set()
        if OPS[own.op].cost > MOST_COST:
            found.add(own)
            continue
        cost += OPS[own.op].cost
        if cost > MOST_COST:
            return set()
        for access in home.reads[own]:
            source = access.source
            if home.places.get(source) is Place.FULL and source not in ends:
                pending.append(source)
    return found - {node}


def _recipe(home: Cluster, node: Node, ends: Collection[Node]) -> list[Node] | None:
    """``node`` and the nodes to copy with it, operands first: up to ``ends``, which are stored, what is read
    or a row's one value.
    """
    found: dict[Node, None] = {}
    pending, cost = [node], 0
    while pending:
        own = pending.pop()
        if OPS[own.op].kind != "elementwise":
            return None
        found.pop(own, None)
        found[own] = None
        cost += OPS[own.op].cost
        if cost > MOST_COST:
            return None
        for access in home.reads[own]:
            source = access.source
            if home.places.get(source) is Place.ANYWHERE:
                cost += OPS[source.op].cost
            if home.places.get(source) is Place.FULL and source not in ends:
                pending.append(source)
    if cost > MOST_COST:
        return None
    order = {own: at for at, own in enumerate(home.places)}
    return sorted(found, key=order.__getitem__)


def _is_large(home: Cluster, source: Node) -> bool:
    """Whether reading ``source`` costs a load an element."""
    if source.op == "constant":
        return False
    place = home.places.get(source)
    if place is not None:
        return place is Place.FULL
    return not all(
        access.source is not source or 0 in access.strides
        for reads in home.reads.values()
        for access in reads
    )


def _reads_own_element(cluster: Cluster, node: Node) -> list[bool]:
    dims = cluster.space.dims
    if product(node.shape) != product(dims):  # the first elements of more would look like their own
        return [False]
    return [
        (own.op == "reduce" or cluster.places[own] is Place.FULL) and is_aligned(access, dims, len(dims))
        for own, reads in cluster.reads.items()
        for access in reads
        if access.source is node
    ]
