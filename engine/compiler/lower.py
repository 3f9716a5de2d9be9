"""From a cluster to a kernel of the loop language, and the layout of each of its buffers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from engine.compiler.access import Access, whole
from engine.compiler.anywhere import BLOCK_WORDS, in_blocks
from engine.compiler.cluster import Cluster, Dims, Finish, Place
from engine.compiler.extent import product
from engine.compiler.fuse import Fusion
from engine.compiler.layout import Layout, Layouts, along_of
from engine.compiler.loopir import (
    Along,
    Apply,
    Buffer,
    Collect,
    Constant,
    Count,
    Draw,
    Kernel,
    Kind,
    Line,
    Load,
    Reduce,
    Stage,
    Store,
)
from engine.compiler.loops import Local
from engine.compiler.turns import Turns
from engine.core.dim import Dim
from engine.core.dtype import DType
from engine.core.node import Node
from engine.core.opdef import OPS

COPIES = ("movement", "marker")  # kinds whose value is what they read, at other indices
KEEP_COST = 12  # additions an element: what costs more to compute again is kept for a later stage


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel, the space it runs over, and its buffers' layouts (a source of None: scratch)."""

    kernel: Kernel
    outer: Dims
    inner: Dim
    layouts: tuple[Layout, ...]
    counters: tuple[Layout, ...]
    """The numbers that it counts, with what is counted as their source."""
    outputs: tuple[Node, ...]
    cost: int
    partials: tuple[Node, ...] = ()
    """Buffers of ``cluster.partial_elements`` that it collects by lanes."""


def lower(step: Cluster | Finish, fusion: Fusion, stored: Collection[Node]) -> Lowered:
    """The kernel of a step, which writes its members in ``stored`` to buffers of their own."""
    return _finishing(step) if isinstance(step, Finish) else Lowering(step, fusion, stored).run()


def _finishing(step: Finish) -> Lowered:
    node = step.node
    if step.length is not None:
        return _totalling(step, step.length)
    buffers = Buffer(node.dtype, "dense", partial=True), Buffer(node.dtype, "dense", written=True)
    layouts = Layout(step.partial, 0, (), 1), Layout(node, 0, (), 1)
    stage = Stage((), (Collect(0, node.attrs[0], 0),))
    kernel = Kernel("finish", 0, node.dtype.size, buffers, (), (stage,), (), ())
    return Lowered(kernel, (step.rows,), product(node.shape), layouts, (), (node,), 1)


def _totalling(step: Finish, length: Dim) -> Lowered:
    node = step.node
    buffers = Buffer(node.dtype, "dense", partial=True), Buffer(node.dtype, "repeat", written=True)
    layouts = Layout(step.partial, 0, (), 1), Layout(node, 0, (), 0)
    stage = Stage((), (Collect(0, node.attrs[0], 0),))
    kernel = Kernel("total", 0, node.dtype.size, buffers, (), (stage,), (), ())
    return Lowered(kernel, (), length, layouts, (), (node,), 1)


@dataclass(slots=True)
class _Lines:
    row: list[Line] = field(default_factory=list)
    inner: list[Line] = field(default_factory=list)


class Lowering(Layouts):
    def __init__(self, cluster: Cluster, fusion: Fusion, stored: Collection[Node]) -> None:
        super().__init__(cluster, fusion, stored)
        self.buffers: list[Buffer] = []
        self.layouts: list[Layout] = []
        self.counters: dict[Layout, int] = {}
        self.constants: dict[tuple[object, bytes], Constant] = {}
        self.stage_of: dict[Node, int] = {}
        self.lines: list[_Lines] = []
        self.last: list[Line] = []
        self.values: dict[tuple[object, int], int] = {}
        self.loaded: dict[tuple[Layout, int | None, int], int] = {}
        self.drawn: dict[int, dict[object, tuple[int, ...]]] = {}
        self.kept: dict[Node, int] = {}
        self.count = 0

    # ---- lines

    def run(self) -> Lowered:
        cluster = self.cluster
        costs: dict[Node, int] = {}
        for node in cluster.places:
            if node not in self.stage_of:
                self.stage_of[node] = self._stage(node, costs)
            if node in self.fusion.loops:
                self._follow(self.fusion.loops[node])
        self.lines = [_Lines() for _ in range(1 + max(self.stage_of.values()))]
        self._choose_kept()
        for node, place in cluster.places.items():
            if place is Place.ANYWHERE or place is Place.STACK:
                continue
            if node.op == "reduce":
                self._reduce(node)
            elif place is Place.FULL:
                self._value(node, self.stage_of[node])
            else:
                self._row_value(node)
            if node in self.outputs or node in self.kept:
                self._store(node)
        return self._finished()

    def _finished(self) -> Lowered:
        stages = [Stage(tuple(lines.row), tuple(lines.inner)) for lines in self.lines]
        last = tuple(self.last)
        while len(stages) > 1 and not stages[-1].inner:  # what follows the last pass along the row
            last = (*stages.pop().row, *last)
        kind: Kind = "rows" if self.cluster.rows else "each"
        if self.cluster.columns:
            kind = "lanes" if self.cluster.by_lanes else "columns"
        if self.cluster.total:
            kind = "blocks"
        kernel = Kernel(
            kind,
            len(self.outer),
            self.cluster.lanes or 4,
            tuple(self.buffers),
            tuple(self.constants.values()),
            tuple(stages),
            tuple([along_of(layout.inner) for layout in self.counters]),
            last,
        )
        cost = sum(self._cost(node) + 1 for node in self.cluster.places)
        partials = tuple(self.cluster.partials.values())
        return Lowered(
            *(kernel, self.outer, self.inner, tuple(self.layouts), tuple(self.counters)),
            *(tuple(self.outputs), cost, partials),
        )

    def _stage(self, node: Node, costs: dict[Node, int]) -> int:
        """The pass along the row in which a node's operands are there; its row result is there one later.

        What costs much is computed in a pass of its own before it is reduced: a reduction's loop is unrolled.
        """
        stage = 0
        own = self._cost(node)
        for access in self.cluster.reads[node]:
            source = access.source
            if source in self.cluster.places:
                after = source.op == "reduce" and self.cluster.places[source] is Place.OUTER
                stage = max(stage, self.stage_of[source] + after)
                if self.stage_of[source] == stage:
                    own += costs.get(source, 0)
        if node.op == "reduce" and self.cluster.places[node] is Place.OUTER and own > KEEP_COST:
            (source,) = [access.source for access in self.cluster.reads[node]]
            if source in self.cluster.places and self.stage_of[source] == stage:
                stage += 1
        costs[node] = own
        return stage

    def _follow(self, local: Local) -> None:
        """A loop's stacks are of its pass; those that it reads of an earlier pass are stored whole."""
        stage = self.stage_of[local.node]
        for item in local.items.values():
            if local.is_stack(item):
                self.stage_of[item] = stage
        for access in local.outside:
            source = access.source
            stacked = self.cluster.places.get(source) is Place.STACK
            if stacked and self.stage_of[source] < stage and source not in self.outputs:
                self.outputs.append(source)

    def _cost(self, node: Node) -> int:
        """Additions an element."""
        loop = self.fusion.loops.get(node)
        return OPS[node.op].cost if loop is None else loop.cost

    def _choose_kept(self) -> None:
        """Values of a row that a later stage needs and that cost more to compute again than to keep."""
        needed: dict[Node, int] = {}
        for node, reads in self.cluster.reads.items():
            for access in reads:
                if self.cluster.places.get(access.source) is Place.FULL:
                    needed[access.source] = max(needed.get(access.source, 0), self.stage_of[node])
        costs: dict[Node, int] = {}
        for node, place in self.cluster.places.items():
            if place is Place.ANYWHERE:
                costs[node] = OPS[node.op].cost
            if place is not Place.FULL:
                continue
            operands = [access.source for access in self.cluster.reads[node]]
            own = self._cost(node) + sum(
                0 if x.op == "constant" else costs.get(x, 2 if x not in self.cluster.places else 0)
                for x in operands
            )
            later = needed.get(node, 0) > self.stage_of[node]
            if node in self.outputs or (later and own > KEEP_COST):
                if later and node not in self.outputs:
                    self.kept[node] = -1
                own = 2
            costs[node] = own

    def new(self) -> int:
        self.count += 1
        return self.count

    def _buffer(self, layout: Layout, buffer: Buffer) -> int:
        self.buffers.append(buffer)
        self.layouts.append(layout)
        return len(self.buffers) - 1

    def _literal(self, node: Node) -> int:
        key = (node.dtype, node.attrs[0])
        if key not in self.constants:
            self.constants[key] = Constant(self.new(), node.dtype, node.attrs[0])
        return self.constants[key].value

    def _read(self, access: Access, place: Place, stage: int, fill: int | None = None) -> int:
        """The value of a buffer's elements in a stage."""
        layout, windows = self.layout(access, place)
        along = along_of(layout.inner) if place is Place.FULL else "repeat"
        home = -1 if along == "repeat" else stage
        if windows:
            home = stage
        key = (layout, fill, home)
        if key not in self.loaded:
            buffer = self.values.get((layout, -2))
            if buffer is None:
                buffer = self._buffer(layout, Buffer(access.source.dtype, along, windows=windows))
                self.values[layout, -2] = buffer
            self.loaded[key] = value = self.new()
            line = Load(value, buffer, fill)
            if along == "repeat" and not windows:
                self.lines[0].row.insert(0, line)
            else:
                self.lines[stage].inner.append(line)
        return self.loaded[key]

    def operand(self, access: Access, reader: Place, stage: int) -> int:
        source = access.source
        if source.op == "constant":
            return self._literal(source)
        place = self.cluster.places.get(source)
        if place is None:
            return self._read(access, reader, stage)
        if place is Place.ANYWHERE:
            return self._counted(access, reader, stage)
        if place is Place.FULL:
            return self._value(source, stage)
        return self.values[source, -1]

    def _counted(self, access: Access, reader: Place, stage: int) -> int:
        """The elements that are read of what is computed anywhere."""
        node, outer = access.source, self.cluster.space.outer
        scalars = [replace(own, shape=outer, strides=(0,) * len(outer)) for own in self.cluster.reads[node]]
        operands = [self.operand(own, Place.OUTER, stage) for own in scalars]
        layout, _ = self.layout(access, reader)
        repeats = reader is not Place.FULL or layout.inner == 0
        home, lines = stage, self.lines[stage].inner
        if repeats:
            home, lines = -1, self.lines[self.stage_of[node]].row
        return self.draw(access, reader, lines, self.drawn.setdefault(home, {}), operands)

    def draw(
        self,
        access: Access,
        reader: Place,
        lines: list[Line],
        drawn: dict[object, tuple[int, ...]],
        operands: Sequence[int],
    ) -> int:
        """Adds to ``lines`` what computes the elements that are read, unless ``drawn`` has them."""
        node = access.source
        layout, _ = self.layout(access, reader)
        blocks = in_blocks(layout.offset, (*layout.outer, layout.inner)) if node.op == "random_bits" else None
        word = 0
        if blocks is not None:
            first, strides, word = blocks
            layout = Layout(node, first, strides[:-1], strides[-1])
        found = drawn.get((layout, blocks is not None))
        if found is None:
            counter = self.counters.setdefault(layout, len(self.counters))
            found = tuple([self.new() for _ in range(1 if blocks is None else BLOCK_WORDS)])
            if node.op == "iota":
                lines.append(Count(found[0], counter, node.dtype))
            else:
                low, high, ordinal, turn = operands
                lines.append(Draw(found, counter, (low, high), ordinal, turn))
            drawn[layout, blocks is not None] = found
        return found[word]

    # ---- for loops

    def number(self, node: Node, number: Dim) -> int:
        """The counter of one number that sizes determine."""
        layout = Layout(node, number, (0,) * len(self.outer), 0)
        return self.counters.setdefault(layout, len(self.counters))

    def constant(self, dtype: DType, number: int) -> int:
        raw = dtype.encode(number)
        if (dtype, raw) not in self.constants:
            self.constants[dtype, raw] = Constant(self.new(), dtype, raw)
        return self.constants[dtype, raw].value

    def rows_buffer(self, access: Access) -> int:
        """The buffer of rows that a loop reads: another loop's stack, or any."""
        if self.cluster.places.get(access.source) is Place.STACK:
            return self.stack_buffer(access)
        layout, _ = self.layout(access, Place.FULL)
        if (layout, -2) not in self.values:
            buffer = Buffer(access.source.dtype, along_of(layout.inner), rows=True)
            self.values[layout, -2] = self._buffer(layout, buffer)
        return self.values[layout, -2]

    def stack_buffer(self, access: Access) -> int:
        """The buffer of a loop's stack: scratch, unless something else reads it."""
        item = access.source
        if (item, -3) not in self.values:
            if item in self.outputs:
                layout, _ = self.layout(access, Place.FULL)
                buffer = Buffer(item.dtype, along_of(layout.inner), written=True, rows=True)
            else:
                layout = Layout(None, 0, (0,) * len(self.outer), 1, (), access.rows)
                buffer = Buffer(item.dtype, "dense", written=True, scratch=True, rows=True)
            self.values[item, -3] = self._buffer(layout, buffer)
        return self.values[item, -3]

    def _loop(self, node: Node, stage: int) -> None:
        """The loop, and the values of its results."""
        local = self.fusion.loops[node]
        found = Turns(self, local, stage).run()
        for number, item in local.items.items():
            if not local.is_stack(item):
                self.values[item, stage] = found[number]
        self.values[node, stage] = -1

    def _value(self, node: Node, stage: int) -> int:
        """The value of a member along the row, in a stage: computed there, again, or from its buffer."""
        key = (node, stage)
        if key in self.values:
            return self.values[key]
        if stage > self.stage_of[node] and (node in self.kept or node in self.outputs):
            self.values[key] = value = self.new()
            self.lines[stage].inner.append(Load(value, self.values[node, -3]))
            return value
        self._compute(node, stage)
        return self.values[key]

    def _compute(self, node: Node, stage: int) -> None:
        """Emits ``node`` and what it needs again in this stage, without recursion."""
        pending = [node]
        while pending:
            current = pending[-1]
            missing = [
                access.source
                for access in self.cluster.reads[current]
                if self.cluster.places.get(access.source) is Place.FULL
                and (access.source, stage) not in self.values
                and not (
                    stage > self.stage_of[access.source]
                    and (access.source in self.kept or access.source in self.outputs)
                )
            ]
            if missing:
                pending += missing
                continue
            pending.pop()
            if (current, stage) in self.values:
                continue
            if current.op == "loop":
                self._loop(current, stage)
                continue
            self.values[current, stage] = self._emit(current, Place.FULL, stage, self.lines[stage].inner)

    def _emit(self, node: Node, place: Place, stage: int, lines: list[Line]) -> int:
        """The value of ``node`` from those of its operands: a line, or for a copy what is read."""
        reads = self.cluster.reads[node]
        if reads and reads[0].windows:
            return self._read(reads[0], place, stage, self._literal(node.inputs[1]))
        operands = tuple([self.operand(access, place, stage) for access in reads])
        if OPS[node.op].kind in COPIES:
            return operands[0]
        dtypes = tuple([operand.dtype for operand in node.inputs])
        line = Apply(self.new(), node.op, operands, dtypes, node.dtype)
        lines.append(line)
        return line.value

    def _row_value(self, node: Node) -> None:
        stage = self.stage_of[node]
        self.values[node, -1] = self._emit(node, Place.OUTER, stage, self.lines[stage].row)

    def _reduce(self, node: Node) -> None:
        stage = self.stage_of[node]
        operand = self.operand(self.cluster.reads[node][0], Place.FULL, stage)
        partial = self.cluster.partials.get(node)
        if partial is not None:
            layout = Layout(partial, 0, (0,) * len(self.outer), 1)
            buffer = self._buffer(layout, Buffer(node.dtype, "dense", written=True, partial=True))
            self.lines[stage].inner.append(Collect(buffer, node.attrs[0], operand))
            return
        line = Reduce(self.new(), node.attrs[0], operand, node.dtype)
        self.values[node, -1] = line.value
        self.lines[stage].inner.append(line)

    def _store(self, node: Node) -> None:
        place = self.cluster.places[node]
        if node in self.kept:
            layout = Layout(None, 0, (0,) * len(self.outer), 1)
            buffer = self._buffer(layout, Buffer(node.dtype, "dense", written=True, scratch=True))
        else:
            layout, _ = self.layout(whole(node), place)
            along: Along = "repeat" if place is Place.OUTER else "dense"
            buffer = self._buffer(layout, Buffer(node.dtype, along, written=True))
        self.values[node, -3] = buffer
        stage = self.stage_of[node]
        if place is Place.FULL:
            self.lines[stage].inner.append(Store(buffer, self.values[node, stage]))
        elif (node.op == "reduce" and stage + 1 >= len(self.lines)) or place is Place.COLUMN:
            self.last.append(Store(buffer, self.values[node, -1]))
        else:
            after = stage + (node.op == "reduce")
            self.lines[after].row.append(Store(buffer, self.values[node, -1]))
