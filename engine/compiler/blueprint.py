"""Blueprints: what of a plan follows from the graph alone: its steps, their kernels' text, and what they
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from engine.autodiff.merge import merge
from engine.compiler.access import Access, whole
from engine.compiler.chains import chain_all
from engine.compiler.cluster import Cluster, Hosted, Refusal, Single
from engine.compiler.dots import attach, joined
from engine.compiler.fuse import Fusion
from engine.compiler.loopir import Kernel, Load, Store, lines_of
from engine.compiler.lower import Lowered, lower
from engine.compiler.nested import draw_nested
from engine.compiler.remat import rematerialise
from engine.compiler.same_turns import united
from engine.compiler.simplify import simplify
from engine.compiler.steps import ChainStep, CondStep, FusedStep, LoopStep, SingleStep, Step
from engine.core.node import Node
from engine.emit.dot import print_fused_dot
from engine.emit.kernel import print_kernel

State: TypeAlias = tuple[Node, Node]
"""An input, and the node whose value replaces it after each run."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """``results`` say how each target is read, then how the new value of each state is: all of a node's
    buffer.

    ``in_place`` tells which states may be written where they are read, ``operands`` what each node is
    computed from. Steps of one level do not depend on each other; fixed ones depend on no input.
    """

    steps: tuple[Step, ...]
    results: tuple[Access, ...]
    states: tuple[Access, ...]
    in_place: tuple[bool, ...]
    text: str
    refusals: tuple[Refusal, ...]
    operands: dict[Node, tuple[Node, ...]]

    def texts(self) -> list[str]:
        """The text of this blueprint, then of those of loops' bodies and conditions' branches."""
        bodies = [
            body for step in self.steps if isinstance(step, LoopStep | CondStep) for body in step.bodies
        ]
        return [self.text, *[text for body in bodies for text in body.blueprint.texts()]]


def draw(targets: Sequence[Node], states: Sequence[State], remat: int | None = None) -> Blueprint:
    """The blueprint of ``targets`` and of the new values of ``states``.

    ``remat`` bytes of buffers at once are aimed at, by computing values again; None: nothing is.
    """
    wanted = united(simplify([*targets, *[new for _, new in states]]))
    order, leaders = merge(wanted)
    fusion = Fusion(order, leaders, wanted)
    reads = [fusion.read(target) for target in wanted]
    results, news = reads[: len(targets)], reads[len(targets) :]
    if remat is not None:
        rematerialise(fusion, {access.source for access in reads}, remat)
    attach(fusion, {access.source for access in news})
    steps, text = _lowered(fusion, reads)
    steps, owned = _owned(steps, results, states, news)
    olds = {access.source: old for (old, _), access in zip(states, owned, strict=True)}
    steps = _late(steps, {access.source for access in [*results, *owned]}, olds)
    steps = _finished_late(steps)
    in_place = [_is_in_place(steps, results, old, own) for (old, _), own in zip(states, owned, strict=True)]
    steps.sort(key=lambda step: (not step.fixed, step.level))
    computed = dict.fromkeys([*fusion.home, *[node for step in fusion.steps for node in step.nodes]])
    operands = {
        node: tuple([fusion.read(x).source for x in _operands(node, fusion)])
        for node in computed
        if node.inputs and node.op != "partial"
    }
    return Blueprint(
        tuple(steps), tuple(results), tuple(owned), tuple(in_place), text, tuple(fusion.refusals), operands
    )


def _operands(node: Node, fusion: Fusion) -> tuple[Node, ...]:
    """What a node is computed from; of the result of a loop that is a plan it is what the loop is."""
    hosted = node.op == "item" and not isinstance(fusion.home[fusion.leaders[node.inputs[0]]], Cluster)
    return node.inputs[0].inputs if hosted else node.inputs


def _lowered(fusion: Fusion, results: Iterable[Access]) -> tuple[list[Step], str]:
    """The steps, and the translation unit with the kernels of all of them, each once."""
    stored = {access.source for access in results}
    for step in fusion.steps:
        stored.update(access.source for access in step.accesses if fusion.home.get(access.source) is not step)
    names: dict[Kernel, str] = {}
    dots: dict[str, str] = {}
    texts = ['#include "fused.h"\n']
    steps: list[Step] = []
    for step in fusion.steps:
        if isinstance(step, Hosted):
            steps.append(draw_nested(step, draw))
            continue
        if isinstance(step, Single):
            steps.append(SingleStep(step.level, step.fixed, step.node, tuple(step.accesses)))
            continue
        lowered = lower(step, fusion, stored)
        name = names.get(lowered.kernel)
        if name is None:
            name = names[lowered.kernel] = f"kernel_{len(names)}"
            texts.append(print_kernel(lowered.kernel, name))
        takeovers = tuple(_takeovers(lowered))
        if isinstance(step, Cluster) and step.product is not None:
            fused = joined(step, lowered, name, step.product.node in stored, takeovers)
            dots[fused.name] = print_fused_dot(fused.name, name)
            steps.append(fused)
        else:
            steps.append(FusedStep(step.level, step.fixed, tuple(step.nodes), lowered, name, takeovers))
    steps, chains = chain_all(steps, {access.source for access in results})
    return steps, "\n".join([*texts, *dots.values(), *chains])


def _takeovers(lowered: Lowered) -> Iterable[tuple[Node, Node]]:
    """Pairs of a buffer that is read for the last time in an element before the other is written there."""
    kernel = lowered.kernel
    lines = [line for stage in kernel.stages for line in lines_of((*stage.row, *stage.inner))]
    lines += kernel.last
    last_load = {line.buffer: at for at, line in enumerate(lines) if isinstance(line, Load)}
    stored = {line.buffer: at for at, line in enumerate(lines) if isinstance(line, Store)}
    sources = [layout.source for layout in lowered.layouts]
    for heir, at in stored.items():
        layout, buffer = lowered.layouts[heir], kernel.buffers[heir]
        for former, loaded in last_load.items():
            own, other = lowered.layouts[former], kernel.buffers[former]
            alike = (own.offset, own.outer, own.inner) == (layout.offset, layout.outer, layout.inner)
            plain = not (
                own.windows
                or own.rows
                or layout.rows
                or other.scratch
                or other.partial
                or other.written
                or buffer.scratch
            )
            once = sources.count(own.source) == 1
            same = (other.dtype.size, other.along) == (buffer.dtype.size, buffer.along)
            # a row's value may be computed by several chunks of the row, of which one would write too early
            alone = buffer.along != "repeat" or kernel.kind == "rows" or lowered.inner == 1
            fits = alike and plain and once and same and alone and loaded < at
            if fits and own.source is not None and layout.source is not None:
                yield own.source, layout.source


def _owned(
    steps: list[Step], results: Sequence[Access], states: Sequence[State], news: Sequence[Access]
) -> tuple[list[Step], list[Access]]:
    """For each state a node whose buffer is the new value and nothing else's: a copy where there is none."""
    level = {node: step.level for step in steps for node in step.writes if not step.fixed}
    taken = {access.source for access in results}
    owned = []
    for (old, new), read in zip(states, news, strict=True):
        access, source = read, read.source
        is_all = access == whole(source)
        if source is old and is_all:
            owned.append(access)
            continue
        if source in taken or source not in level or not is_all:
            copy = Node("keep", (new,), (), new.shape, new.dtype)
            steps.append(SingleStep(1 + level.get(source, 0), False, copy, (access,)))
            access = whole(copy)
        taken.add(access.source)
        owned.append(access)
    return steps, owned


def _late(steps: Sequence[Step], results: set[Node], olds: Mapping[Node, Node]) -> list[Step]:
    """Steps that only write results wait: those of states for other readers of these, for checks and for each
    other, the rest for those with the same kernel. So states can be written in place, and one kernel over
    many buffers, as an optimiser's, runs in one wave.

    ``olds`` maps the new value of a state to its input.
    """
    read = {node for step in steps for node in step.reads}

    def is_last(step: Step) -> bool:
        return not step.fixed and all(node in results and node not in read for node in step.writes)

    reader: dict[Node, int] = {}
    checked = max([step.level for step in steps if is_checked(step)], default=0)
    for step in steps:
        if not is_last(step):
            for node in step.reads:
                reader[node] = max(reader.get(node, 0), step.level)
    groups: list[str | None] = []
    levels: dict[str, int] = {}
    for step in steps:
        group = None
        if is_last(step):
            replaced = [olds[node] for node in step.writes if node in olds]
            group = "states" if replaced else step.name if isinstance(step, FusedStep) else None
            level = max([step.level, *[1 + max(reader.get(old, 0), checked) for old in replaced]])
        if group is not None:
            levels[group] = max(levels.get(group, 0), level)
        groups.append(group)
    return [
        step if group is None else replace(step, level=levels[group])
        for step, group in zip(steps, groups, strict=True)
    ]


def _finished_late(steps: Sequence[Step]) -> list[Step]:
    """Ends of reductions wait until just before what reads them, so those of many layers run in one wave."""
    first: dict[Node, int] = {}
    for step in steps:
        for node in step.reads:
            first[node] = min(first.get(node, step.level), step.level)

    def wanted(step: Step) -> int:
        if (
            step.fixed
            or not isinstance(step, FusedStep)
            or step.lowered.kernel.kind not in ("finish", "total")
        ):
            return step.level
        return max([step.level, *[first[node] - 1 for node in step.writes if node in first]])

    return [replace(step, level=wanted(step)) for step in steps]


def _is_in_place(steps: Sequence[Step], results: Sequence[Access], old: Node, own: Access) -> bool:
    """Whether a state's new value may be written over its old one: nobody reads that afterwards, nothing
    fails.
    """
    if own.source is old:
        return True
    home = next(step for step in steps if own.source in step.writes)
    if any(access.source is old for access in results):
        return False
    if any(is_checked(step) and step.level >= home.level for step in steps):
        return False
    if old in home.reads and not _takes_over(home, old, own.source):
        return False
    return all(step.level < home.level for step in steps if old in step.reads and step is not home)


def _takes_over(step: Step, old: Node, new: Node) -> bool:
    """Whether each element of ``old`` is read for the last time before the same of ``new`` is written."""
    parts = step.parts if isinstance(step, ChainStep) else (step,)
    readers = [part for part in parts if old in part.reads]
    if len(readers) > 1:
        return False
    (reader,) = readers
    return isinstance(reader, FusedStep) and (old, new) in reader.takeovers


def is_checked(step: Step) -> bool:
    """Whether a step refuses indices out of range, which ends the run."""
    if isinstance(step, LoopStep | CondStep):
        return any(is_checked(inner) for body in step.bodies for inner in body.blueprint.steps)
    return isinstance(step, SingleStep) and step.node.attrs[-1:] == ("checked",)
