"""Gradients of eager Tensors: the graph is differentiated, and the nodes that result are evaluated."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

from engine.autodiff.differentiate import differentiate
from engine.core.node import Node
from engine.core.shapes import text
from engine.devices.device import current_device
from engine.devices.evaluate import evaluate
from engine.errors import ShapeError
from engine.tensor.arithmetic import add
from engine.tensor.cell import Leaf, wrap

if TYPE_CHECKING:
    from engine.tensor.tensor import Tensor


_ADDING = threading.RLock()
"""Threads may share leaves: none of their gradients is lost."""


def backward(x: Tensor, gradient: Tensor | None = None) -> None:
    """Adds the gradient of x to ``.grad`` of every leaf that requires one and that x depends on.

    Where there is none, as when all parameters are frozen, nothing happens: ``requires_grad`` of x tells.
    ``gradient`` is the cotangent of x, ones by default. Every ``.grad`` keeps its own history, so that it can
    be differentiated again. Raises ShapeError for a gradient of another shape.
    """
    if gradient is not None and gradient.shape != x.shape:
        raise ShapeError(
            f"the gradient has shape {text(gradient.shape)}; it must have that of x, {text(x.shape)}"
        )
    leaves = _leaves(x.node)
    if not leaves:
        return
    seeds = None if gradient is None else [gradient.node]
    nodes = differentiate([x.node], [leaf for leaf, _ in leaves], seeds)
    values = evaluate(nodes, current_device())
    with _ADDING:
        for (_, cell), node, value in zip(leaves, nodes, values, strict=True):
            new = wrap(value, node, True)
            old = cell.grad
            cell.grad = new if old is None else add(old, new)


def _leaves(root: Node) -> list[tuple[Leaf, Tensor]]:
    """Leaves beneath ``root`` whose cell lives and requires a gradient, in depth-first order."""
    found: list[tuple[Leaf, Tensor]] = []
    seen = {root}
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Leaf):
            cell = node.cell()
            if cell is not None and cell._requires_grad:
                found.append((node, cast("Tensor", cell)))
        for operand in reversed(node.inputs):
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return found
