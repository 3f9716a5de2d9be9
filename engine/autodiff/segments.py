"""Loops cut into segments: an outer loop over about √n inner ones, so that only its carries are kept."""

from __future__ import annotations

from math import isqrt

from engine.autodiff.invariant import Turns
from engine.core import build as b
from engine.core.dtype import int64
from engine.core.lanes import together
from engine.core.node import Node
from engine.core.region import LoopBody, params_like, replaced


def segmented(turns: Turns, limit: int, count: Node | None) -> list[Node]:
    """The results of the loop, in their order. Its gradient keeps the carries before each segment, and those
    within one segment at a time.
    """
    body, initial = turns.body(), list(turns.initial)
    if turns.stop is not None:
        initial += [b.full(body.lanes, x.dtype, 0) for x in (turns.stop, b.constant(0, int64))]
        body = together(body)
    size = max(isqrt(max(limit - 1, 0)) + 1, 1)
    segments = -(-limit // size)
    taken = b.constant(limit, int64)
    if count is not None:
        taken = b.min(b.max(count, b.constant(0, int64)), taken)
    node = b.loop(_outer(body, size, taken), tuple(initial), (*turns.held, taken), segments)
    carries = [b.item(node, 1 + k) for k in range(len(initial))]
    stacks = []
    for k, x in enumerate(body.slices):
        stack = b.item(node, 1 + len(initial) + k)
        stacks.append(b.take(b.reshape(stack, (segments * size, *x.shape)), 0, 0, limit))
    if turns.stop is not None:
        *carries, _, taken = carries
    return [taken, *carries, *stacks]


def _outer(body: LoopBody, size: int, taken: Node) -> LoopBody:
    """One segment: at most ``size`` turns of ``body``."""
    number, first = b.input((), int64), b.input((), int64)
    outs = replaced(body.outs, {body.turn: b.add(number, first)})
    following, rest = outs[: len(body.next)], outs[len(body.next) :]
    slices = rest[: len(body.slices)]
    stop = None if body.stop is None else rest[-1]
    inner = LoopBody(number, body.carries, (*body.constants, first), following, slices, stop)
    segment, total = b.input((), int64), params_like([taken])[0]
    carries, constants = params_like(body.carries), params_like(body.constants)
    begin = b.mul(segment, b.constant(size, int64))
    node = b.loop(inner, tuple(carries), (*constants, begin), size, b.sub(total, begin))
    next = [b.item(node, 1 + k) for k in range(len(carries))]
    stacks = [b.item(node, 1 + len(carries) + k) for k in range(len(slices))]
    ended = None
    if body.stop is not None:
        stopped = next[-2]
        ended = b.reduce(stopped, "all", tuple(range(stopped.rank))) if stopped.shape else stopped
    return LoopBody(segment, carries, (*constants, total), next, stacks, ended)
