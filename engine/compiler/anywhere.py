"""What kernels compute anywhere: element f of a counted range is f, of random words it is word f of a stream.

Such a node has no buffer unless something other than a printed kernel reads it, and no place in an index
space: whoever reads it, along whatever strides, computes just the elements that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.compiler.access import Access
from engine.compiler.extent import quotient
from engine.core.dim import Dim
from engine.core.dtype import float32, float64, int32, int64, uint32
from engine.core.node import Node

COUNTED = (float32, float64, int32, uint32, int64)
BLOCK_WORDS = 4  # of the generator


def is_anywhere(node: Node) -> bool:
    """Whether kernels compute ``node`` where they read it."""
    if node.op == "iota":
        return node.rank == 1 and node.dtype in COUNTED and node.shape[0] != 0
    return node.op == "random_bits" and 0 not in node.shape


def is_scalar(node: Node) -> bool:
    return all(size == 1 for size in node.shape)


def scalars(reads: Sequence[Access]) -> list[Access]:
    """The operands of random words one by one: the key's two words, the call's ordinal, the turn."""
    if not reads:
        return []
    key, *others = reads
    words = [Access(key.source, (), key.offset + k * key.strides[0], ()) for k in range(2)]
    return [*words, *[replace(own, shape=(), strides=()) for own in others]]


def in_blocks(offset: Dim, strides: Sequence[Dim]) -> tuple[Dim, tuple[Dim, ...], int] | None:
    """Offset and strides in blocks of words, and which word of its block every element is; None where that
    differs.
    """
    steps = [quotient(stride, BLOCK_WORDS) if stride != 0 else 0 for stride in strides]
    if any(step is None for step in steps):
        return None
    for word in range(BLOCK_WORDS):
        rest = offset - word
        first = 0 if rest == 0 else quotient(rest, BLOCK_WORDS)
        if first is not None:
            return first, tuple([step for step in steps if step is not None]), word
    return None
