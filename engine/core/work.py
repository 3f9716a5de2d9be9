"""What a graph costs, told from its nodes before anything is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from engine.core.dim import Shape, evaluate
from engine.core.dtype import DType, float64, int32, int64, uint32
from engine.core.node import Node
from engine.core.opdef import OPS
from engine.core.region import loop_of, results
from engine.core.walk import post_order


@dataclass(frozen=True, slots=True)
class Work:
    """What one evaluation takes at most: operations in units of an addition, and the bytes of all values."""

    flops: int
    nbytes: int

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.nbytes + other.nbytes)


SLOWER_PRODUCTS: dict[DType, int] = {float64: 2, int32: 20, uint32: 20, int64: 20}  # beside those of float32

# Of loops whose turns are taken one node after another:
_STARTED = 400_000  # additions in the time that starting a primitive takes
_LANE = 5_000  # additions in the time that counting one lane's turns takes
_SLICE_BYTES = 512  # of a slice that waits to be stacked, beside its elements


def work_of(targets: Sequence[Node]) -> Work:
    """The work of a graph whose sizes are known, one node after another, nothing freed but between turns.

    Raises ValueError for a loop without a limit of turns.
    """
    return _sum(post_order(targets))


def _sum(nodes: Sequence[Node]) -> Work:
    """Of these nodes; regions within regions are few, so this goes into them."""
    return sum(map(_work, nodes), Work(0, 0))


def _work(node: Node) -> Work:
    match node.op:
        case "loop":
            return _work_of_loop(node)
        case "cond":
            then, otherwise = node.attrs
            return _sum(then.nodes) + _sum(otherwise.nodes)
        case "item":
            return Work(0, 0)
    elements = _elements(node.shape)
    nbytes = elements * node.dtype.size
    if node.op == "dot":
        inner = evaluate(node.inputs[0].shape[-1], {})
        return Work(2 * elements * inner * SLOWER_PRODUCTS.get(node.dtype, 1), nbytes)
    most = max([elements, *[_elements(x.shape) for x in node.inputs]])
    return Work(most * OPS[node.op].cost, nbytes)


def _work_of_loop(node: Node) -> Work:
    loop = loop_of(node)
    if loop.limit is None:
        raise ValueError("a loop without a limit of turns may take any time")
    turns, body = evaluate(loop.limit, {}), _sum(loop.body.nodes)
    lanes = _elements(loop.body.lanes) if loop.body.stop is not None else 0
    started = 1 + len(loop.body.nodes) + len(loop.body.slices)
    left = sum(_elements(shape) * dtype.size for shape, dtype in results(node))
    return Work(
        turns * (body.flops + _STARTED * started + _LANE * lanes),
        body.nbytes + left + turns * len(loop.body.slices) * _SLICE_BYTES,
    )


def _elements(shape: Shape) -> int:
    return prod([evaluate(dim, {}) for dim in shape])
