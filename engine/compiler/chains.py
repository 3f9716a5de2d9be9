"""Chains: batched products and the kernels around them as one kernel, unit by unit of the batch.

Attention is such a chain: for each sequence the scores of its heads, their softmax and the weighted values,
forward or backward, all of it in the caches; nothing of the next unit is begun before. A part reads of
another part only what the same unit has written, so the order of the parts within a unit is all that counts.

Precondition: steps whose reads come from lower levels. Postcondition: the same, with some steps joined on the
level of the last of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import TypeAlias, cast

from engine.compiler.access import Access
from engine.compiler.extent import product, quotient, solid
from engine.compiler.steps import ChainStep, FusedStep, Part, SingleStep, Step
from engine.core.dim import Dim, Poly, Shape
from engine.core.dtype import float32, float64
from engine.core.node import Node
from engine.emit.dot import ChainPart, print_chain
from engine.emit.kernel import word_count

MOST_PARTS = 16
MOST_BATCH_AXES = 6  # GM_MAX_BATCH


def chain_all(steps: Sequence[Step], results: Set[Node]) -> tuple[list[Step], list[str]]:
    """The steps with chains among them, and the text of these. ``results`` are read after all steps."""
    graph = _Graph(steps)
    names: dict[tuple[ChainPart, ...], str] = {}
    result: dict[int, Step] = dict(enumerate(steps))
    free = set(result)
    for at, step in enumerate(steps):
        if at not in free or not (isinstance(step, SingleStep) and _is_batched(step)):
            continue
        members = graph.grow(at, free)
        if len(members) > 1:
            free.difference_update(members)
            parts = tuple([cast(Part, result.pop(member)) for member in members])
            inner = graph.inner(members, results)
            shape = tuple([_printed(part, inner) for part in parts])
            name = names.setdefault(shape, f"chain_{len(names)}")
            result[members[-1]] = ChainStep(parts[-1].level, False, parts, inner, units_of(step.node), name)
    texts = [print_chain(name, shape) for shape, name in names.items()]
    return list(result.values()), texts


def sources_of(part: Part) -> list[Node | None]:
    """What the part's buffers hold, in their order; None: scratch."""
    if isinstance(part, SingleStep):
        return [part.node, *[access.source for access in part.accesses]]
    return [layout.source for layout in part.lowered.layouts]


def _printed(part: Part, inner: Sequence[Node]) -> ChainPart:
    own = tuple([k for k, source in enumerate(sources_of(part)) if source in inner])
    if isinstance(part, SingleStep):
        return ChainPart(None, own)
    kernel = part.lowered.kernel
    return ChainPart(part.name, own, not part.lowered.outer, len(kernel.buffers), word_count(kernel))


def units_of(dot: Node) -> Dim:
    """What a chain with this product runs over: the first axis of its batch."""
    return solid(dot.shape[:-2])[0]


def _is_batched(step: SingleStep) -> bool:
    node = step.node
    if node.op != "dot" or node.dtype not in (float32, float64) or step.fixed:
        return False
    return 0 < len(solid(node.shape[:-2])) <= MOST_BATCH_AXES


class _Graph:
    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.home = {node: at for at, step in enumerate(steps) for node in step.writes}
        self.readers: dict[Node, list[int]] = {}
        for at, step in enumerate(steps):
            for node in dict.fromkeys(step.reads):
                self.readers.setdefault(node, []).append(at)

    def grow(self, seed: int, free: Set[int]) -> list[int]:
        """The chain around ``seed`` that neighbours one after the other allow, in the order of its parts."""
        first = self.steps[seed]
        assert isinstance(first, SingleStep)
        units = units_of(first.node)
        members, pending = {seed: None}, self._neighbours(seed)
        while pending and len(members) < MOST_PARTS:
            at = pending.pop()
            if at in members or at not in free or not _can_be_part(self.steps[at], units):
                continue
            if self._fits(at, members, units):
                members[at] = None
                pending = [*self._neighbours(at), *pending]
        return sorted(members, key=lambda own: (self.steps[own].level, own))

    def inner(self, members: Sequence[int], results: Set[Node]) -> tuple[Node, ...]:
        """What only members read."""
        written = [node for at in members for node in self.steps[at].writes if node not in results]
        return tuple([node for node in written if all(own in members for own in self.readers.get(node, ()))])

    def _neighbours(self, at: int) -> list[int]:
        step = self.steps[at]
        producers = [self.home[node] for node in step.reads if node in self.home]
        consumers = [reader for node in step.writes for reader in self.readers.get(node, ())]
        return list(dict.fromkeys([*producers, *consumers]))

    def _fits(self, at: int, members: Iterable[int], units: Dim) -> bool:
        """Whether units of a step and of ``members`` meet only their like, and all others read later."""
        inside = {*members, at}
        last = max([self.steps[own].level for own in inside])
        for own in inside:
            for node in self.steps[own].writes:
                for reader in self.readers.get(node, ()):
                    if reader not in inside and self.steps[reader].level <= last:
                        return False
                    met = reader in inside and at in (own, reader)
                    if met and not _reads_own_unit(self.steps[reader], node, units):
                        return False
        return True


def _can_be_part(step: Step, units: Dim) -> bool:
    """Whether a step's results can be computed unit by unit, each in its own part of their buffers."""
    if isinstance(step, SingleStep):
        return _is_batched(step) and units_of(step.node) == units
    if not isinstance(step, FusedStep) or step.fixed or step.lowered.kernel.kind not in ("each", "rows"):
        return False
    lowered = step.lowered
    if not lowered.outer and lowered.kernel.kind == "rows":  # a single row, whose units are no units of it
        return False
    if quotient(_leading(lowered.outer, lowered.inner), units) is None:
        return False
    return all(_reads_own_unit(step, node, units) for node in step.writes)


def _leading(outer: Shape, inner: Dim) -> Dim:
    return outer[0] if outer else inner


def per_unit(part: Part, units: Dim) -> Dim:
    """Products, rows or (of a kernel with one row) elements of a unit."""
    if isinstance(part, SingleStep):
        total = product(part.node.shape[:-2])
    else:
        lowered = part.lowered
        total = product(lowered.outer) if lowered.outer else lowered.inner
    own = quotient(total, units)
    assert own is not None
    return own


# ---- which elements a unit touches

Window: TypeAlias = tuple[Dim, Dim] | None


def _reads_own_unit(part: Step, node: Node, units: Dim) -> bool:
    """Whether each unit of ``part`` touches only its own unit of the buffer of ``node``."""
    if isinstance(part, SingleStep):
        accesses = [access for access in part.accesses if access.source is node]
        return all(_is_own_unit(node, units, access.offset, _axes(access)) for access in accesses)
    assert isinstance(part, FusedStep)
    lowered = part.lowered
    for layout, buffer in zip(lowered.layouts, lowered.kernel.buffers, strict=True):
        if layout.source is node:
            windows: dict[int, Window] = dict(zip(buffer.windows, layout.windows, strict=True))
            dims, strides = (*lowered.outer, lowered.inner), (*layout.outer, layout.inner)
            axes = [
                (dim, stride, windows.get(k))
                for k, (dim, stride) in enumerate(zip(dims, strides, strict=True))
            ]
            if not _is_own_unit(node, units, layout.offset, axes):
                return False
    return True


def _axes(access: Access) -> list[tuple[Dim, Dim, Window]]:
    return [(dim, stride, None) for dim, stride in zip(access.shape, access.strides, strict=True)]


def _is_own_unit(node: Node, units: Dim, offset: Dim, axes: Sequence[tuple[Dim, Dim, Window]]) -> bool:
    """Whether element (i_0, …) at ``offset + Σ i·stride`` lies in the unit of the buffer that i_0 is in."""
    axes = [axis for axis in axes if axis[0] != 1]
    own = quotient(product(node.shape), units)
    rest = quotient(axes[0][0], units) if axes else None
    if own is None or rest is None or axes[0][2] is not None or rest * axes[0][1] != own:
        return False
    low = high = offset
    for dim, stride, window in [(rest, axes[0][1], None), *axes[1:]]:
        first, end = window or (0, dim)
        if not _is_at_least(stride, 0):
            return False
        low, high = low + first * stride, high + (end - 1) * stride
    return _is_at_least(low, 0) and _is_at_least(own - high, 1)


def _is_at_least(value: Dim, bound: int) -> bool:
    """Whether that is certain for every size of the symbols, none of which is negative."""
    rest = value - bound
    if not isinstance(rest, Poly):
        return rest >= 0
    return all(coefficient >= 0 for _, coefficient in rest.terms)
