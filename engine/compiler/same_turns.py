"""Loops that take the same turns become one with the stacks of all, such as a simulation and that of its
gradient, which keeps what the way back needs.

Precondition: any graph. Postcondition: the same values; of the loops with equal operands whose carries go the
same way, one is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.autodiff.merge import merge
from engine.core import build as b
from engine.core.node import Node
from engine.core.region import LoopBody, Region, loop_of
from engine.core.walk import post_order


def united(targets: Sequence[Node]) -> list[Node]:
    """Nodes with the values of ``targets``."""
    order, leaders = merge(targets)
    groups: dict[Any, list[Node]] = {}
    for node in order:
        if node.op == "loop":
            groups.setdefault(_course(node, leaders), []).append(node)
    first = {node: group[0] for group in groups.values() if len(group) > 1 for node in group}
    if not first:
        return list(targets)
    stacks = {group[0]: _stacks(group) for group in groups.values() if len(group) > 1}
    place = {key: k for own in stacks.values() for k, (_, key) in enumerate(own)}
    new: dict[Node, Node] = {}
    made: dict[Node, Node] = {}
    for node in post_order(targets):
        inputs = tuple([new[x] for x in node.inputs])
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        new[node] = node if same else Node(node.op, inputs, node.attrs, node.shape, node.dtype)
        loop = leaders[node.inputs[0]] if node.op == "item" else leaders[node]
        if loop not in first:
            continue
        if node.op == "loop":
            one = first[loop]
            if one not in made:
                made[one] = _with(new[node], [own for own, _ in stacks[one]])
            new[node] = made[one]
        elif node.op == "item" and node.attrs[0] > len(loop.attrs[0].carries):
            carried = 1 + len(loop.attrs[0].carries)
            new[node] = b.item(inputs[0], carried + place[loop, node.attrs[0] - carried])
    return [new[target] for target in targets]


def _course(node: Node, leaders: Mapping[Node, Node]) -> tuple[Any, ...]:
    """What decides which turns a loop takes and what its carries are in each."""
    loop = loop_of(node)
    body = loop.body
    outs = (*body.next, *([] if body.stop is None else [body.stop]))
    inputs = tuple([leaders[x] for x in node.inputs])
    return inputs, loop.limit, body.stop is None, Region(body.params, outs)


def _stacks(group: Sequence[Node]) -> list[tuple[Node, tuple[Node, int]]]:
    """The slices of all loops, over the parameters of the first, and whose which they are."""
    params = group[0].attrs[0].params
    return [
        (out, (node, number)) for node in group for number, out in enumerate(_inlined(node.attrs[0], params))
    ]


def _inlined(body: LoopBody, params: Sequence[Node]) -> list[Node]:
    outs = body.inline(params)
    return outs[len(body.carries) : len(body.carries) + len(body.slices)]


def _with(node: Node, slices: Sequence[Node]) -> Node:
    """The loop with these slices instead of its own."""
    loop = loop_of(node)
    own = loop.body
    body = LoopBody(own.turn, own.carries, own.constants, own.next, slices, own.stop)
    return b.loop(body, loop.carries, loop.constants, loop.limit, loop.count, loop.save)
