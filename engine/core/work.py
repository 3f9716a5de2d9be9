"""What a graph costs, told from its nodes before anything is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from engine.core.dim import evaluate
from engine.core.dtype import DType, float64, int32, int64, uint32
from engine.core.node import Node
from engine.core.opdef import OPS
from engine.core.walk import post_order


@dataclass(frozen=True, slots=True)
class Work:
    """What one evaluation takes at most: operations in units of an addition, and the bytes of all values."""

    flops: int
    nbytes: int


SLOWER_PRODUCTS: dict[DType, int] = {float64: 2, int32: 20, uint32: 20, int64: 20}  # beside those of float32


def work_of(targets: Sequence[Node]) -> Work:
    """The work of a graph whose sizes are known, one node after another, nothing freed."""
    flops = nbytes = 0
    for node in post_order(targets):
        row, elements = OPS[node.op], _elements(node)
        nbytes += elements * node.dtype.size
        if node.op == "dot":
            inner = evaluate(node.inputs[0].shape[-1], {})
            flops += 2 * elements * inner * SLOWER_PRODUCTS.get(node.dtype, 1)
        else:
            flops += max([elements, *map(_elements, node.inputs)]) * row.cost
    return Work(flops, nbytes)


def _elements(node: Node) -> int:
    return prod([evaluate(dim, {}) for dim in node.shape])
