"""Symbols in place of arrays, and the device that computes with them: it writes a graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from engine.core import build
from engine.core.dim import Poly, on_unequal
from engine.core.dtype import DType
from engine.core.node import Node
from engine.core.opdef import make
from engine.core.region import results
from engine.devices.array import Array
from engine.errors import SizeError, TracingError

_ENGINE = str(Path(__file__).parents[1])


class Symbol:
    """What stands for an array where functions are traced and graphs recorded: the node to compute it."""

    __slots__ = ("dtype", "node", "owner", "shape")

    def __init__(self, node: Node, owner: SymbolDevice) -> None:
        self.node = node
        self.owner = owner
        self.shape = node.shape
        self.dtype = node.dtype

    def __getattr__(self, name: str) -> NoReturn:
        raise TracingError(
            f"{user_line()}: a value is asked for (item(), tolist(), bool(), printing, an operation outside) "
            "that is unknown while a function is traced or a graph recorded. Make the tensor a result and "
            "read that, or choose between values with where()"
        )


@contextmanager
def sizes_in_doubt() -> Iterator[None]:
    """Inside the block, code outside the engine that compares a symbolic size is refused, if it may be equal.

    Silently it would get False, for a size that may well be that number in some run.
    """
    token = on_unequal.set(_refuse)
    try:
        yield
    finally:
        on_unequal.reset(token)


def _refuse(size: Poly, other: object) -> None:
    if not sys._getframe(2).f_code.co_filename.startswith(_ENGINE) and isinstance(other, int | Poly):
        raise SizeError(
            f"{user_line()}: whether the size {size} is {other} is not known while a function is traced or a "
            "graph recorded; give the size as a number, or compare sizes outside"
        )


def user_line() -> str:
    """The innermost line outside the engine."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_ENGINE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class SymbolDevice:
    """Gives each primitive its node.

    Indices are checked once: whoever reads or writes at the same ones again relies on that. ``checks`` are
    the nodes that are relied on.
    """

    name = "tracing"
    exact = True

    def __init__(self) -> None:
        self.checks: list[Node] = []
        self._checked: dict[Any, Node] = {}
        self._constants: dict[int, tuple[Array, Node]] = {}

    def run(
        self, op: str, attrs: tuple[Any, ...], inputs: Sequence[Any], shape: tuple[int, ...], dtype: DType
    ) -> Any:
        operands = tuple([self.node(x) for x in inputs])
        if attrs[-1:] != ("checked",):
            return Symbol(Node(op, operands, attrs, shape, dtype), self)
        indices = operands[1:] if op == "gather" else operands[1:-1]
        key = indices, operands[0].shape[: len(indices)]
        first = self._checked.get(key)
        if first is None:
            node = self._checked[key] = Node(op, operands, attrs, shape, dtype)
            return Symbol(node, self)
        self.checks.append(first)
        return Symbol(Node(op, operands, (*attrs[:-1], "clamp"), shape, dtype), self)

    def run_region(self, op: str, attrs: tuple[Any, ...], inputs: Sequence[Any]) -> tuple[Any, ...]:
        node = make(op, tuple([self.node(x) for x in inputs]), *attrs)
        return tuple([Symbol(build.item(node, k), self) for k in range(len(results(node)))])

    def node(self, x: Any) -> Node:
        """The node of a value; of an array it is a constant. TracingError for what belongs elsewhere."""
        if isinstance(x, Symbol):
            if x.owner is not self:
                raise TracingError(
                    f"{user_line()}: a tensor of another graph, or of a function traced before, is used; "
                    "each has its own, so give this one an input for it"
                )
            return x.node
        known = self._constants.get(id(x))
        if known is None:
            known = self._constants[id(x)] = x, _constant(x)  # x is kept, so that its id stays its own
        return known[1]


def _constant(x: Array) -> Node:
    if prod(x.shape) and all(
        stride == 0 or size == 1 for size, stride in zip(x.shape, x.strides, strict=True)
    ):
        one = Array(x.storage, x.offset, (), (), x.dtype)
        scalar = Node("constant", (), (one.tobytes(),), (), x.dtype)
        return build.broadcast(scalar, x.shape) if x.shape else scalar
    return Node("input", (), (), x.shape, x.dtype, x)
