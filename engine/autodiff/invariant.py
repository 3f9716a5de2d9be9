"""What a loop's body does the same in every turn is done once, outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.autodiff.merge import merge
from engine.core import build as b
from engine.core.dim import Dim
from engine.core.dtype import bool_
from engine.core.node import Node
from engine.core.region import LoopBody, params_like, replaced
from engine.core.walk import post_order


@dataclass(frozen=True, slots=True)
class Turns:
    """A loop before it is a node: parameters and results of its body, and the operands from outside."""

    turn: Node
    carries: tuple[Node, ...]
    constants: tuple[Node, ...]
    next: tuple[Node, ...]
    slices: tuple[Node, ...]
    stop: Node | None
    initial: tuple[Node, ...]
    held: tuple[Node, ...]
    """The values of ``constants``."""

    @property
    def outs(self) -> tuple[Node, ...]:
        return (*self.next, *self.slices, *(() if self.stop is None else (self.stop,)))

    def with_outs(self, outs: Sequence[Node]) -> Turns:
        carries, slices = len(self.next), len(self.slices)
        stop = None if self.stop is None else outs[-1]
        return replace(
            self, next=tuple(outs[:carries]), slices=tuple(outs[carries : carries + slices]), stop=stop
        )

    def ends(self, results: Sequence[Node], before: Turns) -> list[Node]:
        """The carries of ``before`` after the last turn, where ``results`` are those of this loop, which was
        made of it.
        """
        ended = dict(zip(self.carries, results, strict=True))
        return [ended.get(x, begun) for x, begun in zip(before.carries, before.initial, strict=True)]

    def body(self) -> LoopBody:
        return LoopBody(self.turn, self.carries, self.constants, self.next, self.slices, self.stop)


def without_invariants(turns: Turns, limit: Dim | None) -> Turns:
    """The same loop with equal nodes merged, without carries that never change, and with what depends on
    constants alone computed outside.

    A constant that is broadcast to the shape of the lanes thus arrives broadcast, so its cotangent stays in
    the lanes, and one reduction follows the loop.
    """
    turns = turns.with_outs(_simple(turns.outs, turns.turn, limit))
    return _hoisted(_without_still(turns))


def _without_still(turns: Turns) -> Turns:
    """Carries that never change become constants."""
    carried = list(zip(turns.carries, turns.next, turns.initial, strict=True))
    moving = [own for own in carried if own[0] is not own[1]]
    still = [own for own in carried if own[0] is own[1]]
    return replace(
        turns,
        carries=tuple([x for x, _, _ in moving]),
        next=tuple([x for _, x, _ in moving]),
        initial=tuple([x for _, _, x in moving]),
        constants=(*turns.constants, *[x for x, _, _ in still]),
        held=(*turns.held, *[x for _, _, x in still]),
    )


def _simple(outs: Sequence[Node], turn: Node, limit: Dim | None) -> list[Node]:
    """Equal nodes merged, what moves nothing gone, and indices that are the turn not counted from the end nor
    checked.
    """
    order, leaders = merge(outs)
    new: dict[Node, Node] = {}
    for node in order:
        inputs = tuple([new[leaders[x]] for x in node.inputs])
        same = all(a is c for a, c in zip(inputs, node.inputs, strict=True))
        own = node if same else Node(node.op, inputs, node.attrs, node.shape, node.dtype)
        new[node] = own.inputs[0] if _moves_nothing(own) else _of_turn(own, turn, limit)
    return [new[leaders[out]] for out in outs]


def _moves_nothing(node: Node) -> bool:
    if node.op == "transpose":
        return bool(node.attrs[0] == tuple(range(node.rank)))
    whole = node.op in ("reshape", "broadcast") or (
        node.op == "slice"
        and all(start == 0 for start in node.attrs[0])
        and node.attrs[2] == (1,) * node.rank
    )
    return whole and node.shape == node.inputs[0].shape


def _of_turn(node: Node, turn: Node, limit: Dim | None) -> Node:
    if node.op == "select" and _is_before_turn(node.inputs[0], turn):
        return node.inputs[2]
    if node.op == "gather" and node.attrs == ("checked",) and node.inputs[1:] == (turn,):
        size = node.inputs[0].shape[0]
        if size == limit or (isinstance(size, int) and isinstance(limit, int) and limit <= size):
            return b.gather(node.inputs[0], (turn,), "clamp")
    return node


def _is_before_turn(pred: Node, turn: Node) -> bool:
    """Whether ``pred`` is turn < 0, which holds never."""
    if pred.op != "lt" or pred.inputs[0] is not turn or pred.dtype is not bool_:
        return False
    bound = pred.inputs[1]
    return bound.op == "constant" and not any(bound.attrs[0])


def _hoisted(turns: Turns) -> Turns:
    """Nodes that depend on a constant, and on nothing that changes, become constants."""
    outs = turns.outs
    varying = {turns.turn, *turns.carries}
    depends = set(turns.constants)
    order = post_order(outs)
    for node in order:
        if any(x in varying for x in node.inputs) or node.attrs[-1:] == ("checked",):
            varying.add(node)
        elif any(x in depends for x in node.inputs):
            depends.add(node)
    readers = [x for node in order if node not in depends for x in node.inputs]
    found = list(
        dict.fromkeys([node for node in (*readers, *outs) if node in depends and node.op not in _WHOLE])
    )
    params = params_like(found)
    held = replaced(found, dict(zip(turns.constants, turns.held, strict=True)))
    new = replaced(outs, dict(zip(found, params, strict=True)))
    return replace(turns.with_outs(new), constants=tuple(params), held=tuple(held))


_WHOLE = ("loop", "cond")  # have no value of their own: their items have
