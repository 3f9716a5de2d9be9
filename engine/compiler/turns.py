"""The turns of a loop within a kernel, as lines: what its carries are and how each becomes the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.compiler.access import Access
from engine.compiler.anywhere import is_anywhere
from engine.compiler.cluster import Place
from engine.compiler.loopir import Apply, Carry, First, Line, Load, Loop, Store
from engine.compiler.loops import Local, stack_access
from engine.core.dtype import DType, bool_, int64
from engine.core.node import Node

if TYPE_CHECKING:
    from engine.compiler.lower import Lowering


class Turns:
    """The lines of ``local`` in a stage of ``lowering``, or in the body of the loop ``around`` it. What is
    outside is loaded before the first turn.
    """

    def __init__(self, lowering: Lowering, local: Local, stage: int, around: Turns | None = None) -> None:
        self.lowering = lowering
        self.local = local
        self.stage = stage
        self.around = around
        self.values: dict[Node, int] = {}
        self.lines: list[Line] = []
        self.drawn: dict[object, tuple[int, ...]] = {}

    def run(self) -> dict[int, int]:
        """Adds the loop's line; the values of its results by their number."""
        local, new = self.local, self.lowering.new
        for node in (local.turn, *local.carries):
            self.values[node] = new()
        first = [self._outside(access) for access in local.init]
        for node in local.order:
            if node in local.inner:
                self._nested(local.inner[node])
            elif not is_anywhere(node):
                self.values[node] = self._computed(node)
        following = [self._operand(access) for access in local.next]
        carries = [
            Carry(self.values[node], start, after, node.dtype, local.is_scalar(node))
            for node, start, after in zip(local.carries, first, following, strict=True)
        ]
        stop = None if local.stop is None else self._operand(local.stop)
        results: dict[int, int] = {}
        active = None
        if stop is not None and local.dims and local.node.shape:
            carries, active, results[0] = self._by_lanes(carries, stop)
            stop = None
        elif 0 in local.items:
            results[0] = new()
            one = self.lowering.constant(int64, 1)
            after = self._apply("add", (self.values[local.turn], one), (int64, int64), int64)
            carries.append(Carry(results[0], self.lowering.constant(int64, 0), after, int64, single=True))
        stacks = self._stacks(active)
        limit = None if local.limit is None else self.lowering.number(local.node, local.limit)
        count = None if local.count is None else self._outside(local.count)
        loop = Loop(
            self.values[local.turn], count, limit, tuple(carries), tuple(self.lines), stop, active, stacks
        )
        lines = self.lowering.lines[self.stage].inner if self.around is None else self.around.lines
        lines.append(loop)
        return results | {1 + k: carry.value for k, carry in enumerate(carries[: len(local.carries)])}

    def _nested(self, inner: Local) -> None:
        """A loop in the body, and the values of its results."""
        found = Turns(self.lowering, inner, self.stage, self).run()
        for number, item in inner.items.items():
            self.values[item] = found[number]

    # ---- values

    def _computed(self, node: Node) -> int:
        reads = self.local.reads[node]
        value = self.lowering.new()
        if node.op == "gather":
            row, index = reads
            self.lines.append(Load(value, self.lowering.rows_buffer(row), None, self._operand(index)))
        else:
            dtypes = tuple([x.dtype for x in node.inputs])
            operands = tuple([self._operand(access) for access in reads])
            self.lines.append(Apply(value, node.op, operands, dtypes, node.dtype))
        return value

    def _operand(self, access: Access) -> int:
        source = access.source
        if source in self.values:
            return self.values[source]
        if source in self.local.reads:  # random words or a count of the body
            operands = [self._operand(own) for own in self.local.reads[source]]
            return self.lowering.draw(access, Place.FULL, self.lines, self.drawn, operands)
        return self._outside(access)

    def _outside(self, access: Access) -> int:
        if self.around is not None:
            return self.around._operand(access)
        return self.lowering.operand(access, Place.FULL, self.stage)

    def _apply(self, op: str, operands: tuple[int, ...], dtypes: tuple[DType, ...], dtype: DType) -> int:
        value = self.lowering.new()
        self.lines.append(Apply(value, op, operands, dtypes, dtype))
        return value

    # ---- elements that stop each for itself

    def _by_lanes(self, carries: list[Carry], stop: int) -> tuple[list[Carry], int, int]:
        """The carries, kept where an element has stopped; which elements go on; how many turns each took."""
        new, inner = self.lowering.new, self.lowering.lines[self.stage].inner
        active, turns, exists = new(), new(), new()
        inner.append(First(exists))
        kept = []
        for carry in carries:
            triple = (bool_, carry.dtype, carry.dtype)
            after = self._apply("select", (active, carry.next, carry.value), triple, carry.dtype)
            kept.append(Carry(carry.value, carry.first, after, carry.dtype, carry.single))
        if 0 in self.local.items:
            taken = self._apply("cast", (active,), (bool_,), int64)
            more = self._apply("add", (turns, taken), (int64, int64), int64)
            kept.append(Carry(turns, self.lowering.constant(int64, 0), more, int64))
        goes = self._apply("not", (stop,), (bool_,), bool_)
        goes = self._apply("and", (active, goes), (bool_, bool_), bool_)
        kept.append(Carry(active, exists, goes, bool_))
        return kept, active, turns

    # ---- stacks

    def _stacks(self, active: int | None) -> tuple[tuple[int, int], ...]:
        """Stores each turn's slices; the buffers of which rows may be left over, and zeros for these."""
        local, buffers = self.local, []
        for k, access in local.slices.items():
            item = local.items[1 + len(local.carries) + k]
            value, zero = self._operand(access), self.lowering.constant(item.dtype, 0)
            if active is not None:
                triple = (bool_, item.dtype, item.dtype)
                value = self._apply("select", (active, value, zero), triple, item.dtype)
            buffer = self.lowering.stack_buffer(stack_access(item, local.dims))
            self.lines.append(Store(buffer, value, self.values[local.turn]))
            buffers.append((buffer, zero))
        ends = local.stop is not None or local.count is not None
        return tuple(buffers) if ends else ()
