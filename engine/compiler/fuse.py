"""Fusion: one pass over the graph in which each node joins the kernel of an operand or begins its own.

Legality is by level. A cluster's level is one more than the highest of what it reads, and a node may join it
only when everything else that the node reads comes from lower levels; so no cycle can arise, and no graph
search is needed. A node with one reader that reads nothing from registers waits for that reader and joins its
kernel, so it is not stored in between. Nothing here reads a size: symbolic dimensions are compared as
polynomials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.compiler.access import Access, is_movement, moved, padded, recut, whole
from engine.compiler.anywhere import is_anywhere, is_scalar, scalars
from engine.compiler.cluster import (
    Cluster,
    Dims,
    Finish,
    Hosted,
    Place,
    Refusal,
    Single,
    Space,
    Step,
)
from engine.compiler.extent import common_refinement, contiguous, product, solid
from engine.compiler.fit import (
    Candidate,
    fit,
    lanes_of,
    placed,
    reduction_of,
    still_readable,
    unreadable,
)
from engine.compiler.loops import Local, local_loop
from engine.compiler.recompute import recompute
from engine.core.node import Node
from engine.core.opdef import OPS

MOST_NODES = 160  # in one cluster: its build time is linear in them, and registers spill
MOST_TURNING = 600  # in the loops of a cluster, of which one has at most two thirds
MOST_WAITING = 16  # nodes that wait for one reader


class Fusion:
    """``steps`` in an order in which they can run; ``home`` tells where a node is computed."""

    def __init__(self, order: Sequence[Node], leaders: dict[Node, Node], targets: Sequence[Node]) -> None:
        self.leaders = leaders
        self.home: dict[Node, Step] = {}
        self.refusals: list[Refusal] = []
        self.varying = _varying(order, leaders)
        self._steps: dict[Step, None] = {}
        self._reads: dict[Node, Access] = {}
        self._siblings: dict[tuple[int, Dims, bool], Cluster] = {}
        self._waiting: dict[Node, Candidate] = {}
        self._anywhere: dict[Node, Candidate] = {}
        self.loops: dict[Node, Local] = {}
        self._items: dict[Node, list[Node]] = {}
        for node in order:
            if node.op == "item":
                self._items.setdefault(leaders[node.inputs[0]], []).append(node)
        for node in order:
            self._reads[node] = moved(node, self.read(node.inputs[0])) if is_movement(node) else whole(node)
        self._readers = self._count_readers(order, targets)
        for node in order:
            self._place(node)
        for target in targets:
            self._settle(self.read(target).source)
        self._unite()
        self._set_copies_apart()
        steps = sorted(self._steps, key=lambda step: step.level)
        recompute(self, steps, {self.read(target).source for target in targets})
        self._finish()
        self.steps = sorted(self._steps, key=lambda step: (not step.fixed, step.level))
        self.refusals = [
            own for own in dict.fromkeys(self.refusals) if self._apart(own.producer, own.consumer)
        ]

    def read(self, operand: Node) -> Access:
        """How an operand is read: from which node's buffer or register, along which strides."""
        return self._reads[self.leaders[operand]]

    def level(self, node: Node, fixed: bool) -> int:
        """The level on which a reader that is ``fixed`` or not finds the value complete."""
        step = self.home.get(node)
        if step is None or (step.fixed and not fixed):  # leaves, and what is computed when sizes are bound
            return 0
        return step.level + (isinstance(step, Cluster) and step.places[node] is Place.COLUMN)

    def _count_readers(self, order: Sequence[Node], targets: Sequence[Node]) -> dict[Node, int]:
        """How many nodes read each value; a target has one reader more than it could wait for."""
        readers: dict[Node, int] = {}
        for target in targets:
            readers[self.read(target).source] = 2
        for node in order:
            if is_movement(node) and self._reads[node].source is not node:
                continue
            for source in {self.read(operand).source: None for operand in node.inputs}:
                readers[source] = readers.get(source, 0) + 1
        return readers

    # ---- one node

    def _place(self, node: Node) -> None:
        if is_movement(node) and self._reads[node].source is not node:
            return
        if OPS[node.op].kind == "leaf" and not node.inputs and node.op != "iota":
            return
        if is_anywhere(node):
            self._defer(node)
            return
        if node.op == "item":
            self._item(node)
            return
        if node.op == "loop" and self._local(node):
            return
        candidate = self._candidate(node)
        if candidate is None:
            self._single(node)
        elif not self._wait(candidate):
            self._fuse(candidate)

    def _defer(self, node: Node) -> None:
        """Kernels compute ``node`` where they read it; it is stored only once something else reads it."""
        reads = [self.read(operand) for operand in node.inputs]
        for access in reads:
            self._settle(access.source)
        self._anywhere[node] = Candidate(node, (), scalars(reads))

    def _candidate(self, node: Node) -> Candidate | None:
        """What fused kernels would do for ``node``; None where they don't know it."""
        if lanes_of(node) is None:
            return None
        reads = [self.read(operand) for operand in node.inputs]
        if OPS[node.op].kind == "elementwise":
            return Candidate(node, solid(node.shape), reads)
        if node.op == "reduce":
            division = reduction_of(node)
            if division is not None and not division.outer and self._has_loop(reads[0].source):
                division = replace(division, total=True)
            return None if division is None else Candidate(node, solid(node.inputs[0].shape), reads, division)
        if is_movement(node):
            dims = common_refinement(solid(reads[0].shape), solid(node.shape))
            return None if dims is None else Candidate(node, dims, reads)
        if node.op == "pad" and reads[1].source.op == "constant" and 0 not in reads[0].shape:
            return None if reads[0].source in self._anywhere else self._padding(node, reads[0])
        return None

    def _has_loop(self, node: Node) -> bool:
        """Whether the kernel of ``node`` runs loops, so that its elements are worth many chunks."""
        home = self.home.get(node)
        return isinstance(home, Cluster) and any(own in self.loops for own in home.places)

    def _padding(self, node: Node, x: Access) -> Candidate:
        """A border around ``x``; around what a waiting copy of it reads, so that nothing is copied first."""
        copy = self._waiting.get(x.source)
        if copy is not None and is_movement(copy.node) and x == whole(x.source):
            cut = recut(x.shape, copy.dims, node.shape, node.attrs[0])
            inner = copy.reads[0].over(copy.dims)
            plain = not copy.reads[0].windows and copy.reads[0].source not in self._anywhere
            if cut is not None and inner is not None and plain:
                del self._waiting[x.source]
                x = Access(copy.reads[0].source, copy.dims, copy.reads[0].offset, inner)
                return Candidate(node, cut[0], [padded(x, *cut)])
        return Candidate(node, solid(node.shape), [padded(x, node.shape, node.attrs[0])])

    def _single(self, node: Node) -> None:
        reads = [self.read(operand) for operand in node.inputs]
        for access in reads:
            self._settle(access.source)
        fixed = node not in self.varying
        kind = Hosted if OPS[node.op].kind == "region" else Single
        step = kind(1 + max([self.level(x.source, fixed) for x in reads], default=0), node, reads, fixed)
        self.home[node] = step
        self._steps[step] = None

    def _item(self, node: Node) -> None:
        """A result of a loop or a condition, which its step writes."""
        step = self.home[self.leaders[node.inputs[0]]]
        if isinstance(step, Cluster):
            return
        assert isinstance(step, Hosted)
        step.items.append(node)
        self.home[node] = step

    def _local(self, node: Node) -> bool:
        """Whether the loop is one that kernels can run; then it has a place."""
        found = local_loop(node, self._items.get(node, ()), self.read)
        if isinstance(found, str):
            return self._refuse(node, node, found)
        self.loops[node] = found
        self._fuse(Candidate(node, found.dims, found.outside))
        return True

    def _results(self, node: Node) -> list[Candidate]:
        """The results of a loop, which are where it is."""
        loop = self.loops.get(node)
        if loop is None:
            return []
        own = Access(node, loop.dims, 0, contiguous(loop.dims))
        return [
            Candidate(item, loop.dims, [] if loop.is_stack(item) else [own]) for item in loop.items.values()
        ]

    def _wait(self, candidate: Candidate) -> bool:
        """Whether the node waits for its only reader: it takes no value from another kernel's registers."""
        node = candidate.node
        if candidate.division is not None or self._readers.get(node) != 1 or node not in self.varying:
            return False
        waiting = 1
        for access in candidate.reads:
            source = access.source
            if source in self._waiting:
                waiting += self._waiting[source].waiting
            elif isinstance(self.home.get(source), Cluster):
                return False
        if waiting > MOST_WAITING:
            return False
        self._waiting[node] = Candidate(node, candidate.dims, candidate.reads, None, waiting)
        return True

    def _settle(self, node: Node) -> None:
        """Places a waiting node without its reader."""
        if node in self._waiting:
            self._fuse(self._waiting.pop(node))
        elif node in self._anywhere and node not in self.home:
            self._single(node)

    def _pulled(self, candidate: Candidate) -> list[Candidate]:
        """The nodes that wait for ``candidate``, each after those that wait for it."""
        found: list[Candidate] = []
        pending = [candidate]
        while pending:
            for access in pending.pop().reads:
                own = self._waiting.get(access.source) or self._anywhere.get(access.source)
                if own is not None:
                    found.append(own)
                    pending.append(own)
        return found[::-1]

    def _fuse(self, candidate: Candidate) -> None:
        pulled = self._pulled(candidate)
        group = [*pulled, candidate, *self._results(candidate.node)]
        inside = {own.node for own in group}
        reads = [access for own in group for access in own.reads]
        sources = [x.source for x in reads if x.source.op != "constant" and x.source not in inside]
        fixed = candidate.node not in self.varying
        top = max([self.level(source, fixed) for source in sources], default=0)
        key = (top + 1, candidate.dims, fixed)
        for cluster in (self._highest(candidate.node, sources, top, fixed), self._siblings.get(key)):
            if (
                cluster is None
                or cluster not in self._steps
                or (cluster.level > top and not _shares(cluster, sources))
            ):
                continue
            if self.admit(cluster, group):
                return
        fresh = Cluster(top + 1, Space(candidate.dims), fixed)
        if self.admit(fresh, group):
            self._steps[fresh] = None
            self._siblings[key] = fresh
        elif any(own.node in self._waiting for own in pulled):
            for own in pulled:
                if own.node in self._waiting:
                    self._settle(own.node)
            self._fuse(candidate)
        else:
            self._single(candidate.node)

    def _highest(self, node: Node, sources: list[Node], top: int, fixed: bool) -> Cluster | None:
        """The one cluster on the highest level among the operands; others there would close a circle."""
        homes: dict[Step, None] = {}
        for source in sources:
            home = self.home.get(source)
            if home is None or self.level(source, fixed) != top:
                continue
            if home.level != top:  # what its columns sum up to is complete on this level, and read above it
                return None
            homes[home] = None
        clusters = [home for home in homes if isinstance(home, Cluster)]
        if not clusters or len(clusters) != len(homes):
            return None
        first, *others = clusters
        for other in others:
            if not self._merge(first, other):
                self._refuse(sources[0], node, "its operands come from kernels that run side by side")
                return None
        return first

    def _merge(self, first: Cluster, other: Cluster) -> bool:
        """Whether ``first`` takes in all of ``other``, which is on the same level."""
        group = []
        for own, reads in other.reads.items():
            dims, _, division = placed(own, reads)
            if division is not None and other.places[own] is Place.COLUMN:
                division = replace(division, total=other.total)
            group.append(Candidate(own, dims, reads, division))
        if not self.admit(first, group):
            return False
        del self._steps[other]
        return True

    def _unite(self) -> None:
        """Merges kernels of a level that read the same elements."""
        first: dict[tuple[int, bool, Node], Cluster] = {}
        for cluster in [step for step in self._steps if isinstance(step, Cluster)]:
            sources = {a.source: None for a in cluster.accesses if a.strides and 0 not in a.strides}
            keys = [(cluster.level, cluster.fixed, source) for source in sources]
            others = dict.fromkeys([first[key] for key in keys if key in first])
            home = next((own for own in others if self._merge(own, cluster)), cluster)
            for key in keys:
                first.setdefault(key, home)

    def _set_copies_apart(self) -> None:
        """A copy across rows that joined nothing has the per-node executor's kernel, which works in tiles."""
        for cluster in [step for step in self._steps if isinstance(step, Cluster) and len(step.places) == 1]:
            ((node, (access, *_)),) = cluster.reads.items()
            strides = access.over(cluster.space.dims)
            if is_movement(node) and strides and strides[-1] not in (0, 1):
                del self._steps[cluster]
                self.home[node] = single = Single(cluster.level, node, [access], cluster.fixed)
                self._steps[single] = None

    def _finish(self) -> None:
        """What completes the reductions that kernels collect by lanes."""
        for cluster in [step for step in self._steps if isinstance(step, Cluster) and step.collects]:
            for node in [own for own, place in cluster.places.items() if place is Place.COLUMN]:
                partial = Node("partial", node.inputs, node.attrs, node.shape, node.dtype)
                cluster.partials[node] = partial
                rows, length = product(cluster.space.outer), product(cluster.space.inner or ())
                own = length if cluster.total else None
                step = Finish(cluster.level + 1, node, partial, rows, own, cluster.fixed)
                self.home[node], self.home[partial] = step, cluster
                self._steps[step] = None

    def _apart(self, producer: Node, consumer: Node) -> bool:
        """Whether two nodes ended up in different kernels, whatever was tried first."""
        home = self.home.get(consumer)
        return not isinstance(home, Cluster) or producer not in home.places

    def _refuse(self, producer: Node, consumer: Node, reason: str) -> bool:
        self.refusals.append(Refusal(producer, consumer, reason))
        return False

    def admit(self, cluster: Cluster, group: Sequence[Candidate]) -> bool:
        """Adds all of ``group`` to ``cluster``, or none."""
        group = self._completed(cluster, group)
        before = (
            *(cluster.space, cluster.lanes, cluster.rows, cluster.columns),
            *(cluster.total, cluster.places),
        )
        if not all(self._join(cluster, own) for own in group):
            cluster.space, cluster.lanes, cluster.rows, cluster.columns, cluster.total, cluster.places = (
                before
            )
            for own in group:
                cluster.places.pop(own.node, None)
                cluster.reads.pop(own.node, None)
            return False
        for own in group:
            if own.node not in self._anywhere:
                self.home[own.node] = cluster
            self._waiting.pop(own.node, None)
        return True

    def _completed(self, cluster: Cluster, group: Sequence[Candidate]) -> list[Candidate]:
        """``group`` with what it reads that is computed anywhere, as far as ``cluster`` lacks it."""
        found: dict[Node, Candidate] = {}
        for candidate in group:
            for source in [access.source for access in candidate.reads]:
                own = self._anywhere.get(source)
                if own is not None and source not in cluster.places:
                    found.setdefault(source, own)
            if candidate.node not in cluster.places:
                found[candidate.node] = candidate
        return list(found.values())

    def adopt(self, cluster: Cluster, nodes: Sequence[Node], home: Cluster) -> bool:
        """Whether ``cluster`` can compute copies of ``nodes`` of ``home``, and does from now on."""
        space = cluster.space.outer, cluster.space.inner
        group = [Candidate(node, *placed(node, home.reads[node])) for node in nodes]
        held = cluster.places, cluster.reads, cluster.lanes
        cluster.places, cluster.reads = dict(cluster.places), dict(cluster.reads)
        for candidate in self._completed(cluster, group):
            if not self._join(cluster, candidate):
                break
        else:
            if (cluster.space.outer, cluster.space.inner) == space:
                fresh = [node for node, place in cluster.places.items() if place is Place.ANYWHERE]
                first = dict.fromkeys([*fresh, *nodes])
                cluster.places = {node: cluster.places[node] for node in (*first, *held[0])}
                cluster.reads = {node: cluster.reads[node] for node in (*first, *held[1])}
                return True
        cluster.places, cluster.reads, cluster.lanes = held
        return False

    def take_out(self, cluster: Cluster, node: Node) -> None:
        """Takes a node that nobody reads out of ``cluster``, and with its last one the cluster."""
        del cluster.places[node], cluster.reads[node]
        if self.home.get(node) is cluster:
            del self.home[node]
        if not cluster.places:
            del self._steps[cluster]

    def fits(self, cluster: Cluster, space: Space) -> bool:
        """Whether all that ``cluster`` reads fits its space cut or divided as ``space`` is."""
        return still_readable(cluster, space, cluster.places, None)

    # ---- joining

    def _join(self, cluster: Cluster, candidate: Candidate) -> bool:
        """Adds a node to ``cluster`` if that is legal; else keeps the reason."""
        node, reads, division = candidate.node, candidate.reads, candidate.division
        anchor = reads[0].source if reads else node
        if len(cluster.places) >= MOST_NODES:
            return self._refuse(anchor, node, f"the kernel already has {MOST_NODES} operations")
        if node in self.loops and self._turning(cluster) + self.loops[node].operations > MOST_TURNING:
            return self._refuse(
                anchor, node, f"loops of the kernel would have over {MOST_TURNING} operations"
            )
        if is_anywhere(node):
            return self._join_anywhere(cluster, candidate)
        if node.op == "item" and not reads:
            cluster.places[node], cluster.reads[node] = Place.STACK, reads
            return True
        fitted = fit(cluster, candidate.dims, division)
        if isinstance(fitted, str):
            return self._refuse(anchor, node, fitted)
        space, operand_place, places = fitted
        own = operand_place if node.op in ("loop", "item") else Place.FULL
        turned = places is not cluster.places and any(
            place is Place.OUTER and loop in self.loops for loop, place in places.items()
        )
        if own is not Place.FULL or turned:
            return self._refuse(anchor, node, "a loop runs for each element")
        for access in reads:
            why = unreadable(cluster, space, places, access, operand_place)
            if why:
                return self._refuse(access.source, node, why)
        if not still_readable(cluster, space, places, division):
            return self._refuse(anchor, node, "what the kernel reads already does not run along these rows")
        lanes = self.loops[node].lanes if node in self.loops else lanes_of(node) or 0
        cluster.space, cluster.lanes = space, min(cluster.lanes or lanes, lanes or cluster.lanes)
        cluster.places = places
        if division is not None:
            cluster.rows = cluster.rows or not (division.columns or division.total)
            cluster.columns = cluster.columns or division.columns
            cluster.total = cluster.total or division.total
            at_end = division.columns or division.total
            operand_place = Place.COLUMN if at_end else Place.OUTER
        result = operand_place
        cluster.places[node] = result
        cluster.reads[node] = reads
        return True

    def _turning(self, cluster: Cluster) -> int:
        """The operations in a turn of all loops of a kernel."""
        return sum(self.loops[node].operations for node in cluster.places if node in self.loops)

    def _join_anywhere(self, cluster: Cluster, candidate: Candidate) -> bool:
        """Adds what has no place; its operands are scalars."""
        node = candidate.node
        for access in candidate.reads:
            place = cluster.places.get(access.source)
            row = place is Place.OUTER and is_scalar(access.source)
            if not row and place not in (None, Place.ANYWHERE):
                return self._refuse(access.source, node, "it is complete only when the kernel ends")
        lanes = lanes_of(node) or 0
        cluster.lanes = min(cluster.lanes or lanes, lanes)
        cluster.places[node] = Place.ANYWHERE
        cluster.reads[node] = candidate.reads
        return True


def _shares(cluster: Cluster, sources: Sequence[Node]) -> bool:
    wanted = set(sources)
    return any(access.source in wanted for access in cluster.accesses)


def _varying(order: Sequence[Node], leaders: dict[Node, Node]) -> set[Node]:
    """Nodes whose value depends on an input; the others are computed once, when sizes are bound."""
    varying: set[Node] = set()
    for node in order:
        if node.op in ("input", "parameter") or any(leaders[x] in varying for x in node.inputs):
            varying.add(node)
    return varying
