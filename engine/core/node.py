"""The one node class of every graph."""

from __future__ import annotations

from typing import Any, Final

from engine.core.dim import Shape
from engine.core.dtype import DType


class Node:
    """One application of a primitive: ``op`` on ``inputs`` with ``attrs`` gives one array.

    Nodes are immutable and compare by identity; equal nodes are merged by a pass (``autodiff.merge``),
    never by a global table. ``attrs`` is a hashable tuple in the order that the primitive's row in
    ``core.ops`` documents. Make nodes with ``core.opdef.make`` (or ``core.build``), which derives ``shape``
    and ``dtype``.

    ``value`` memoises the array that an eager device computed for this node. It follows from the other
    fields, so it plays no part in what the node is; it is written at most once.
    """

    __slots__ = ("__weakref__", "attrs", "dtype", "inputs", "op", "shape", "value")

    def __init__(  # noqa: PLR0917  the fields, in their one order
        self,
        op: str,
        inputs: tuple[Node, ...],
        attrs: tuple[Any, ...],
        shape: Shape,
        dtype: DType,
        value: Any = None,
    ) -> None:
        self.op: Final = op
        self.inputs: Final = inputs
        self.attrs: Final = attrs
        self.shape: Final = shape
        self.dtype: Final = dtype
        self.value = value

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"<{self.op} {self.dtype}[{shape}]>"
