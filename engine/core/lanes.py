"""Loops whose lanes stop one by one, spelled out: as loops that stop as a whole."""

from __future__ import annotations

from engine.core import build as b
from engine.core.dtype import bool_, int64
from engine.core.node import Node
from engine.core.region import LoopBody


def together(body: LoopBody) -> LoopBody:
    """``body`` with a scalar stop and two more carries, at the end: which lanes have stopped, and after how
    many turns each has. Both begin as zeros.

    A lane that has stopped keeps its carries and adds zeros to the stacks. After a stop that was a scalar
    already no turn follows.
    """
    assert body.stop is not None
    lanes = body.stop.shape
    stopped, turns = b.input(lanes, bool_), b.input(lanes, int64)

    def kept(old: Node, new: Node) -> Node:
        return new if not lanes else b.select(b.broadcast(stopped, new.shape), old, new)

    next = [kept(old, new) for old, new in zip(body.carries, body.next, strict=True)]
    slices = [kept(b.zeros_like(x), x) for x in body.slices]
    ended = b.or_(stopped, body.stop)
    counted = b.add(turns, b.cast(b.not_(stopped), int64))
    return LoopBody(
        body.turn,
        (*body.carries, stopped, turns),
        body.constants,
        (*next, ended, counted),
        slices,
        b.reduce(ended, "all", tuple(range(len(lanes)))) if lanes else ended,
    )
