"""The one order in which passes visit a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.core.node import Node


def post_order(outputs: Sequence[Node], stop: Callable[[Node], bool] | None = None) -> list[Node]:
    """Every node that ``outputs`` reach, each once and after its inputs.

    Depth first, outputs and inputs from left to right, so the order follows from the graph alone. Nodes for
    which ``stop`` holds are left out, with whatever only they reach.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[Node | None] = list(reversed(outputs))
    pending: list[
        Node
    ] = []  # entered, inputs not all visited; a None on the stack marks where the last one ends
    while stack:
        node = stack.pop()
        if node is None:
            order.append(pending.pop())
            continue
        if node in seen or (stop is not None and stop(node)):
            continue
        seen.add(node)
        inputs = node.inputs
        if not inputs:
            order.append(node)
            continue
        pending.append(node)
        stack.append(None)
        stack.extend(reversed(inputs))
    return order
