"""Rematerialisation: values that are kept for long are dropped and computed again before their late readers.

Precondition: a fusion whose steps are final but for products that take kernels in. Postcondition: the same
values, by the same primitives on the same operands, so the same bits; some of the kernels run twice, on
copies of nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from engine.compiler.access import Access
from engine.compiler.cluster import Cluster, Place, Single, Space, Step
from engine.compiler.extent import product
from engine.compiler.fit import Candidate, placed
from engine.compiler.fuse import Fusion
from engine.core.dim import Dim, Poly, evaluate
from engine.core.node import Node
from engine.core.opdef import OPS

_AGAIN = (Place.FULL, Place.OUTER)
NOMINAL_SIZE = 256  # of a symbol, when lifetimes are weighed: plans serve all sizes
MOST_NODES = 40  # computed again for one value


@dataclass(frozen=True, slots=True)
class _Choice:
    """``node`` is free between levels ``early`` and ``late`` when ``again`` are computed anew for
    ``readers``.
    """

    node: Node
    early: int
    late: int
    readers: tuple[Step, ...]
    again: tuple[Node, ...]
    score: float


def rematerialise(fusion: Fusion, kept: Collection[Node], limit: int) -> None:
    """Frees buffers, those with the most bytes times levels for the work first, until at most ``limit`` bytes
    are in use on any level, or no choice is left that helps where the most are.

    ``kept`` are results, which stay. What costs a product, a scatter or a loop is never computed again.
    """
    for step in fusion.steps:
        step.level *= 2  # room for kernels in between
    lives = _Lives(fusion, kept)
    while True:
        peak = lives.peak()
        if lives.live[peak] <= limit:
            return
        choices = [choice for choice in lives.choices() if choice.early < peak < choice.late]
        done = False
        for choice in sorted(choices, key=lambda choice: -choice.score):
            if _apply(fusion, choice):
                done = True
                break
            lives.refused.add(choice.node)
        if not done:
            return
        lives.count()


class _Lives:
    """Which levels write and read each buffer, and how many bytes are in use on each level."""

    def __init__(self, fusion: Fusion, kept: Collection[Node]) -> None:
        self.fusion = fusion
        self.kept = kept
        self.refused: set[Node] = set()
        self.count()

    def count(self) -> None:
        self.readers: dict[Node, list[Step]] = {}
        top = 0
        for step in sorted(self.fusion.steps, key=lambda step: step.level):
            top = max(top, step.level)
            for source in dict.fromkeys([access.source for access in step.accesses]):
                home = self.fusion.home.get(source)
                if home is not None and home is not step and not home.fixed:
                    self.readers.setdefault(source, []).append(step)
        change = [0] * (top + 2)
        for node, readers in self.readers.items():
            if node not in self.kept:
                change[self.fusion.home[node].level] += _nbytes(node)
                change[readers[-1].level + 1] -= _nbytes(node)
        self.live = [sum(change[: level + 1]) for level in range(top + 1)]

    def peak(self) -> int:
        return max(range(len(self.live)), key=self.live.__getitem__)

    def choices(self) -> Iterator[_Choice]:
        """For each buffer its longest rest between two uses, if what follows can compute it again."""
        for node, readers in self.readers.items():
            home = self.fusion.home[node]
            if node in self.kept or node in self.refused or not isinstance(home, Cluster):
                continue
            if home.places.get(node) not in _AGAIN:
                continue
            levels = [home.level, *[step.level for step in readers]]
            rests = [after - before for before, after in pairwise(levels)]
            longest = max(range(len(rests)), key=rests.__getitem__)
            early, late = levels[longest], levels[longest + 1]
            again = self._again(node, late) if late - early > 2 else None
            if again:
                cost = sum(_elements(own) * (1 + OPS[own.op].cost) for own in again)
                score = _nbytes(node) * (late - early) / cost
                yield _Choice(node, early, late, tuple(readers[longest:]), again, score)

    def _again(self, node: Node, late: int) -> tuple[Node, ...] | None:
        """``node`` and what it needs that is not in a buffer at level ``late``, in order; None where that is
        out of the question.
        """
        found: dict[Node, None] = {}
        pending = [node]
        while pending:
            own = pending.pop()
            found.pop(own, None)
            found[own] = None
            home = self.fusion.home[own]
            if not isinstance(home, Cluster) or home.places.get(own) not in _AGAIN or len(found) > MOST_NODES:
                return None
            if OPS[own.op].kind == "region":
                return None
            for access in home.reads[own]:
                source = access.source
                origin = self.fusion.home.get(source)
                if origin is None or origin.fixed or (source is not node and self._is_there(source, late)):
                    continue
                pending.append(source)
        return tuple(reversed(found))

    def _is_there(self, source: Node, late: int) -> bool:
        readers = self.readers.get(source)
        return source in self.kept or (bool(readers) and readers[-1].level >= late)  # type: ignore[index]


def _apply(fusion: Fusion, choice: _Choice) -> bool:
    """Adds a kernel with copies of the nodes just before the late readers, which read its result."""
    copies: dict[Node, Node] = {}
    group: list[Candidate] = []
    for node in choice.again:
        copies[node] = Node(node.op, node.inputs, node.attrs, node.shape, node.dtype)
        home = fusion.home[node]
        assert isinstance(home, Cluster)
        dims, reads, division = placed(node, home.reads[node])
        group.append(Candidate(copies[node], dims, [_instead(x, copies) for x in reads], division))
    home = fusion.home[choice.node]
    assert isinstance(home, Cluster)
    cluster = Cluster(choice.late - 1, Space(home.space.outer, home.space.inner), lanes=home.lanes)
    if not fusion.admit(cluster, group):
        return False
    fusion.steps.append(cluster)
    for step in choice.readers:
        if isinstance(step, Cluster):
            for node, reads in step.reads.items():
                step.reads[node] = [_instead(access, copies, choice.node) for access in reads]
                if node in fusion.loops:
                    fusion.loops[node] = fusion.loops[node].reading(
                        lambda access: _instead(access, copies, choice.node)
                    )
        elif isinstance(step, Single):
            step.accesses = [_instead(access, copies, choice.node) for access in step.accesses]
    return True


def _instead(access: Access, copies: dict[Node, Node], only: Node | None = None) -> Access:
    """The same read of a copy where there is one."""
    source = access.source
    if source not in copies or (only is not None and source is not only):
        return access
    return replace(access, source=copies[source])


def _size(dim: Dim) -> int:
    if not isinstance(dim, Poly):
        return dim
    names = {name for monomial, _ in dim.terms for name in monomial}
    return evaluate(dim, dict.fromkeys(names, NOMINAL_SIZE))


def _elements(node: Node) -> int:
    return _size(product(node.inputs[0].shape if node.op == "reduce" else node.shape))


def _nbytes(node: Node) -> int:
    return _size(product(node.shape)) * node.dtype.size
