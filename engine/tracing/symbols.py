"""Symbols in place of arrays, and the device that computes with them: it writes a graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from engine.core import build
from engine.core import dim as dims
from engine.core.dim import Dim, Poly, Relation, on_doubt
from engine.core.dtype import DType
from engine.core.node import Node
from engine.core.opdef import make
from engine.core.region import results
from engine.devices.array import Array
from engine.errors import SizeError, TracingError

_ENGINE = str(Path(__file__).parents[1])
_DIM = dims.__file__


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


def refuse(relation: Relation, size: Poly, other: Dim) -> bool:
    """Raises SizeError: the answer of those who know no sizes."""
    raise SizeError(
        f"{user_line()}: whether the size {size} {relation} {other} is not known while a graph is recorded; "
        "give the size as a number, or compare sizes outside"
    )


@contextmanager
def sizes_in_doubt(answer: Callable[[Relation, Poly, Dim], bool]) -> Iterator[None]:
    """Inside the block, code outside the engine that compares symbolic sizes gets ``answer``, where these
    do not tell by themselves.

    Code of the engine goes on to take sizes for different that are not known to be equal.
    """

    def doubt(relation: Relation, size: Poly, other: Dim) -> bool:
        if not _asking_file().startswith(_ENGINE):
            return answer(relation, size, other)
        if relation == "==":
            return False
        raise TypeError(f"whether the size {size} {relation} {other} is not known")

    token = on_doubt.set(doubt)
    try:
        yield
    finally:
        on_doubt.reset(token)


def _asking_file() -> str:
    """Whose code compares two sizes."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename == _DIM:
        frame = frame.f_back
    return frame.f_code.co_filename


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
