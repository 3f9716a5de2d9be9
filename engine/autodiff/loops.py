"""Gradients of loops and conditions: a loop backwards, and a condition between the branches' gradients.

A loop is differentiated turn by turn from the last: the cotangents of the carries are carried, and those of
constants are summed up on the way. What the carries were before a turn was kept by the forward loop, or is
computed again from the first turn on. The backward loop is a loop of primitives, so it can be differentiated
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.autodiff.differentiate import differentiate, is_zero
from engine.autodiff.invariant import Turns, without_invariants
from engine.core import build as b
from engine.core.dtype import int64
from engine.core.node import Node
from engine.core.region import Loop, LoopBody, Region, loop_of, params_like, replaced
from engine.core.walk import post_order

Cotangents = tuple[Node | None, ...]


def saving(node: Node) -> Node:
    """The same loop with one more stack for each carry: what it was before each turn.

    Loops that keep no carries, or keep them already, stay as they are.
    """
    loop = loop_of(node)
    missing = [x for x in loop.body.carries if x not in loop.body.slices]
    if not missing or not _keeps(loop):
        return node
    own = loop.body
    body = LoopBody(own.turn, own.carries, own.constants, own.next, (*own.slices, *missing), own.stop)
    return b.loop(body, loop.carries, loop.constants, loop.limit, loop.count, loop.save)


def _keeps(loop: Loop) -> bool:
    return loop.save == "every" and loop.limit is not None


def gradient_of_loop(node: Node, cotangents: Mapping[int, Node], wanted: Sequence[bool]) -> Cotangents:
    loop = loop_of(node)
    counts: Cotangents = () if loop.count is None else (None,)
    if loop.limit == 0:
        carried = [cotangents.get(1 + k) for k in range(len(loop.carries))]
        return (*counts, *carried, *[None] * len(loop.constants))
    backward = _Backward(saving(node), cotangents, wanted[len(counts) + len(loop.carries) :])
    return (*counts, *backward.of_carries, *backward.of_constants)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A constant of which a turn reads rows only, each by a scalar index.

    The cotangents of rows are stacked, and added up after the loop; where carries are not kept, neither are
    these, and they are added up in each turn, in the same order.
    """

    constant: int
    reads: tuple[Node, ...]

    @property
    def places(self) -> Node:
        """The indices of a turn's rows, int64."""
        return _listed([b.cast(read.inputs[1], int64) for read in self.reads])

    def added(self, total: Node, places: Node, values: Node) -> Node:
        """``total``, of the constant's shape, with values added to its rows."""
        return b.scatter(total, (places,), values, "add", self.reads[0].attrs[0])


class _Held:
    """The constants of the backward loop: parameters, and what they take."""

    def __init__(self) -> None:
        self.params: dict[Node, Node] = {}  # by what they take

    def __call__(self, value: Node) -> Node:
        if value.op == "constant":
            return value
        if value not in self.params:
            self.params[value] = params_like([value])[0]
        return self.params[value]


class _Backward:
    """The backward loop of ``node``, which keeps its carries or computes them again.

    ``of_carries`` and ``of_constants`` are the cotangents of its operands, the latter where ``wanted``.
    """

    def __init__(self, node: Node, cotangents: Mapping[int, Node], wanted: Sequence[bool]) -> None:
        self._node = node
        self._loop = loop = loop_of(node)
        self._held = _Held()
        body = loop.body
        self._floats = [k for k, x in enumerate(body.carries) if x.dtype.is_float]
        self._reached = set(post_order(body.outs))
        self._rows = self._rows_of(wanted)
        apart = {rows.constant for rows in self._rows}
        self._summed = [
            k
            for k, x in enumerate(body.constants)
            if wanted[k] and x.dtype.is_float and k not in apart and x in self._reached
        ]
        first = 1 + len(body.carries)
        self._stacks = {k: cotangents[first + k] for k in range(len(body.slices)) if first + k in cotangents}
        ends, stacks = self._record(cotangents)
        self.of_carries: list[Node | None] = [None] * len(body.carries)
        self.of_constants: list[Node | None] = [None] * len(body.constants)
        for end, k in zip(ends, self._floats, strict=False):
            self.of_carries[k] = end
        for end, k in zip(ends[len(self._floats) :], self._sums, strict=True):
            self.of_constants[k] = end
        for at, (rows, values) in enumerate(zip(self._rows, stacks, strict=False)):
            total = b.zeros_like(loop.constants[rows.constant])
            self.of_constants[rows.constant] = rows.added(total, stacks[len(self._rows) + at], values)

    def _rows_of(self, wanted: Sequence[bool]) -> list[_Rows]:
        """Constants that the body reads only a row at a time, wherever each row is."""
        body = self._loop.body
        readers: dict[Node, list[Node]] = {}
        for node in body.nodes:
            for x in dict.fromkeys(node.inputs):
                readers.setdefault(x, []).append(node)
        found = []
        for k, x in enumerate(body.constants):
            reads = readers.get(x, [])
            in_rows = all(_is_row(own, x) and own.attrs == reads[0].attrs for own in reads)
            if reads and in_rows and wanted[k] and x.dtype.is_float and x not in body.outs:
                found.append(_Rows(k, tuple(reads)))
        return found

    @property
    def _sums(self) -> list[int]:
        """The constants whose cotangents are summed up on the way."""
        return [*self._summed, *([] if _keeps(self._loop) else [rows.constant for rows in self._rows])]

    # ---- one turn

    def _record(self, cotangents: Mapping[int, Node]) -> tuple[list[Node], list[Node]]:
        """The carries of the backward loop after its last turn, and its stacks."""
        loop, body, held = self._loop, self._loop.body, self._held
        back = b.input((), int64)
        turn = b.sub(held(self._last()), back)
        taken = b.item(self._node, 0)
        stopped = b.le(held(taken), b.broadcast(turn, body.lanes)) if body.lanes else None
        constants = [held(x) for x in loop.constants]
        carries = self._before(turn, stopped, constants)
        flags = None if stopped is None else params_like([stopped])[0]
        outs = self._outs(flags)
        seeds = params_like(outs)
        sums = params_like([body.constants[k] for k in self._sums])
        parts = self._parts(outs, seeds, sums)
        carried = params_like(seeds[: len(self._floats)])
        stacks = [self._row(stack, turn) for stack in self._stacks.values()]
        given = [turn, *carries, *constants, *carried, *stacks]
        values = dict(zip([*body.params, *seeds], given, strict=True))
        if flags is not None and stopped is not None:
            values[flags] = stopped
        new = replaced(parts, values)
        begun = [cotangents.get(1 + k) or b.zeros_like(loop.carries[k]) for k in self._floats]
        begun += [b.zeros_like(loop.constants[k]) for k in self._sums]
        ends = len(carried) + len(sums)
        turns = Turns(
            turn=back,
            carries=(*carried, *sums),
            constants=tuple(held.params.values()),
            next=tuple(new[:ends]),
            slices=tuple(new[ends:]),
            stop=None,
            initial=tuple(begun),
            held=tuple(held.params),
        )
        left = without_invariants(turns, loop.limit)
        count = None if self._is_fixed else self._count(taken)
        node = b.loop(left.body(), left.initial, left.held, loop.limit, count, loop.save)
        first = 1 + len(left.carries)
        results = left.ends([b.item(node, k) for k in range(1, first)], turns)
        return results, [b.item(node, first + k) for k in range(len(left.slices))]

    def _outs(self, flags: Node | None) -> list[Node]:
        """What of a turn has cotangents: the next carries, then slices; in lanes that have stopped before, as
        ``flags`` say, what they are there.
        """
        body = self._loop.body
        following = [body.next[k] for k in self._floats]
        slices = [body.slices[k] for k in self._stacks]
        if flags is None:
            return [*following, *slices]
        kept = [_where(flags, body.carries[k], x) for k, x in zip(self._floats, following, strict=True)]
        return [*kept, *[_where(flags, b.zeros_like(x), x) for x in slices]]

    def _parts(self, outs: Sequence[Node], seeds: Sequence[Node], sums: Sequence[Node]) -> list[Node]:
        """One turn: the cotangents of the carries, the sums with those of constants, and, where they are
        stacked, those of rows and their places.
        """
        body, count = self._loop.body, len(self._floats)
        wrt = [body.carries[k] for k in self._floats]
        wrt += [body.constants[k] for k in self._summed]
        parts = differentiate(outs, [*wrt, *[read for rows in self._rows for read in rows.reads]], seeds)
        reads = iter(parts[len(wrt) :])
        slopes = [_listed([next(reads) for _ in rows.reads]) for rows in self._rows]
        parts = [*parts[:count], *_added(sums[: len(self._summed)], parts[count : len(wrt)])]
        if _keeps(self._loop):
            return [*parts, *slopes, *[rows.places for rows in self._rows]]
        each = zip(self._rows, sums[len(self._summed) :], slopes, strict=True)
        return [*parts, *[rows.added(total, rows.places, values) for rows, total, values in each]]

    def _row(self, stack: Node, turn: Node) -> Node:
        """The row of ``turn``; where all are the same, that one."""
        if stack.op == "broadcast":
            (x,) = stack.inputs
            if x.rank < stack.rank:
                return self._held(b.broadcast(x, stack.shape[1:]))
            if x.shape[0] == 1 and stack.shape[0] != 1:
                return self._held(b.broadcast(b.reshape(x, x.shape[1:]), stack.shape[1:]))
        return b.gather(self._held(stack), (turn,), "clamp")

    @property
    def _is_fixed(self) -> bool:
        """Whether the loop takes all turns, whatever its values."""
        return self._loop.count is None and self._loop.body.stop is None

    def _count(self, taken: Node) -> Node:
        """How many turns were taken, by the lane with the most."""
        if not taken.shape:
            return taken
        if 0 in taken.shape:
            return b.constant(0, int64)
        return b.reduce(taken, "max", tuple(range(taken.rank)))

    def _last(self) -> Node:
        """The number of the last turn that was taken."""
        limit = self._loop.limit
        if self._is_fixed and isinstance(limit, int):
            return b.constant(limit - 1, int64)
        return b.sub(self._count(b.item(self._node, 0)), b.constant(1, int64))

    def _before(self, turn: Node, stopped: Node | None, constants: Sequence[Node]) -> list[Node]:
        """The carries before ``turn``."""
        loop, body, held = self._loop, self._loop.body, self._held
        if not _keeps(loop):
            again = LoopBody(body.turn, body.carries, body.constants, body.next, (), body.stop)
            initial = tuple([held(x) for x in loop.carries])
            node = b.loop(again, initial, tuple(constants), loop.limit, turn, loop.save)
            return [b.item(node, 1 + k) for k in range(len(body.carries))]
        found = []
        for k, x in enumerate(body.carries):
            stack = b.item(self._node, 1 + len(body.carries) + body.slices.index(x))
            before = b.gather(held(stack), (turn,), "clamp")
            if stopped is not None:  # stacks have zeros there, and what was carried has not changed since
                before = _where(stopped, held(b.item(self._node, 1 + k)), before)
            found.append(before)
        return found


def _is_row(node: Node, x: Node) -> bool:
    """Whether ``node`` is a row of ``x`` by a scalar index."""
    return node.op == "gather" and node.inputs[0] is x and [i.shape for i in node.inputs[1:]] == [()]


def _listed(parts: Sequence[Node]) -> Node:
    """``parts`` along a new first axis; one alone as it is."""
    if len(parts) == 1:
        return parts[0]
    return b.concat(tuple([b.reshape(part, (1, *part.shape)) for part in parts]), 0)


def _where(flags: Node, a: Node, c: Node) -> Node:
    """``a`` in the lanes whose flag holds, else ``c``."""
    return b.select(b.broadcast(flags, a.shape), a, c)


# ---- sums over turns


def _added(sums: Sequence[Node], parts: Sequence[Node]) -> list[Node]:
    """``sums`` with a turn's parts added: to elements alone, or within an inner loop, where these are sums
    themselves. So a sum is one chain, however the turns are divided among loops.
    """
    inner: dict[
        Node, dict[int, Node]
    ] = {}  # what begins as zeros in which loop, and shall begin as which sum
    for total, part in zip(sums, parts, strict=True):
        place = _summing_place(part)
        if place is not None:
            inner.setdefault(part.inputs[0], {}).setdefault(place, total)
    begun = {node: _beginning(node, starts) for node, starts in inner.items()}
    result = []
    for total, part in zip(sums, parts, strict=True):
        place = _summing_place(part)
        if place is not None and inner[part.inputs[0]][place] is total:
            result.append(b.item(begun[part.inputs[0]], 1 + place))
        elif _is_scattered(part):
            result.append(b.scatter(total, part.inputs[1:-1], part.inputs[-1], *part.attrs))
        else:
            result.append(total if is_zero(part) else b.add(total, part))
    return result


def _is_scattered(part: Node) -> bool:
    return part.op == "scatter" and part.attrs[0] == "add" and is_zero(part.inputs[0])


def _summing_place(part: Node) -> int | None:
    """Which carry of a loop ``part`` is, if that begins as zeros and is only ever added to."""
    if part.op != "item" or part.inputs[0].op != "loop":
        return None
    loop, place = loop_of(part.inputs[0]), part.attrs[0] - 1
    if not 0 <= place < len(loop.carries) or not is_zero(loop.carries[place]):
        return None
    carry, following = loop.body.carries[place], loop.body.next[place]
    readers = [node for node in loop.body.nodes if carry in node.inputs]
    if len(readers) != 1 or carry in loop.body.outs:
        return None
    (reader,) = readers
    if reader.op == "loop":
        return place if following.op == "item" and following.inputs[0] is reader else None
    adds = reader.op == "add" or (reader.op == "scatter" and reader.attrs[0] == "add")
    return place if adds and reader is following and reader.inputs[0] is carry else None


def _beginning(node: Node, starts: Mapping[int, Node]) -> Node:
    """A loop with other values to begin with."""
    loop = loop_of(node)
    carries = tuple([starts.get(k, x) for k, x in enumerate(loop.carries)])
    return b.loop(loop.body, carries, loop.constants, loop.limit, loop.count, loop.save)


# ---- conditions


def gradient_of_cond(node: Node, cotangents: Mapping[int, Node], wanted: Sequence[bool]) -> Cotangents:
    """The branch that was taken is computed again, and its gradient."""
    pred, *operands = node.inputs
    places = [k for k, x in enumerate(operands) if wanted[1 + k] and x.dtype.is_float]
    results: list[Node | None] = [None] * len(operands)
    if places:
        seeds = tuple(cotangents.values())

        def branch(region: Region) -> Region:
            given = params_like(seeds)
            outs = [region.outs[k] for k in cotangents]
            parts = differentiate(outs, [region.params[k] for k in places], given)
            return Region([*region.params, *given], parts)

        back = b.cond(pred, branch(node.attrs[0]), branch(node.attrs[1]), (*operands, *seeds))
        for at, k in enumerate(places):
            results[k] = b.item(back, at)
    return (None, *results)
