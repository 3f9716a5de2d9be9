"""Merging equal nodes: which nodes of a graph are bound to have the same value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from engine.core.node import Node
from engine.core.walk import post_order

IDENTITY = frozenset({"input", "parameter"})  # leaves whose value does not follow from the node


def merge(outputs: Sequence[Node], distinct: Collection[Node] = ()) -> tuple[list[Node], dict[Node, Node]]:
    """The leaders of ``outputs``' graph in depth-first post-order, and the leader of each node.

    Nodes are equal when they apply one primitive with equal attributes to equal inputs; of equal nodes the
    first visited leads. Inputs, parameters and the nodes in ``distinct`` are equal to themselves only.
    Nothing is rewritten: a leader may have inputs that do not lead, but have the same values as those that
    do.
    """
    order: list[Node] = []
    leaders: dict[Node, Node] = {}
    by_key: dict[Any, Node] = {}
    for node in post_order(outputs):
        op = node.op
        if op in IDENTITY or node in distinct:
            leader = node
        else:
            inputs = tuple([leaders[operand] for operand in node.inputs])
            leader = by_key.setdefault((op, inputs, node.attrs, node.dtype), node)
        leaders[node] = leader
        if leader is node:
            order.append(node)
    return order, leaders
