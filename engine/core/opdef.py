"""What a row of the primitive table holds, and the one function that makes nodes from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.core.dim import Shape
from engine.core.dtype import DType
from engine.core.node import Node
from engine.errors import DTypeError

Kind = Literal["leaf", "elementwise", "movement", "reduce", "dot", "index", "marker", "control"]
ShapeRule = Callable[[tuple[Node, ...], tuple[Any, ...]], Shape]
DTypeRule = Callable[[tuple[Node, ...], tuple[Any, ...]], DType]
GradientRule = Callable[[Node, Node], tuple[Node | None, ...]]
"""Maps a node and the cotangent of its value to the cotangent of each input (None: no gradient flows there)."""


@dataclass(frozen=True, slots=True)
class OpDef:
    """One primitive.

    ``arity`` is the number of inputs, or None for any number. ``dtypes`` are the accepted dtypes of the inputs.
    ``c`` is the C expression with ``{0}``, ``{1}`` … for operands and ``{t}`` for the operand dtype's suffix
    (elementwise primitives only). ``cost`` is arithmetic per element in units of one addition; fusion weighs
    recomputing against storing with it. ``samples`` are operand values from which value and gradient tests are
    generated, one tuple per input. ``linear`` marks operations whose gradient does not depend on the operands.
    """

    name: str
    kind: Kind
    arity: int | None
    attrs: tuple[str, ...]
    dtypes: tuple[DType, ...]
    shape: ShapeRule
    dtype: DTypeRule
    gradient: GradientRule | None
    cost: int = 1
    c: str | None = None
    samples: tuple[tuple[Any, ...], ...] = ()


OPS: dict[str, OpDef] = {}


def define(row: OpDef) -> None:
    """Adds a row to the table; called by ``core.ops`` alone."""
    if row.name in OPS:
        raise ValueError(f"primitive {row.name!r} is defined twice")
    OPS[row.name] = row


def make(op: str, inputs: Sequence[Node], *attrs: Any) -> Node:
    """A node of primitive ``op``, its shape and dtype derived by the table's rules.

    Raises ShapeError or DTypeError, naming the primitive, what it got and the rule that is broken.
    """
    row = OPS[op]
    operands = tuple(inputs)
    if row.arity is not None and len(operands) != row.arity:
        raise TypeError(f"{op} takes {row.arity} inputs, got {len(operands)}")
    for operand in operands:
        if operand.dtype not in row.dtypes:
            accepted = ", ".join(map(str, row.dtypes))
            raise DTypeError(f"{op} does not take {operand.dtype}; it takes {accepted}")
    return Node(op, operands, attrs, row.shape(operands, attrs), row.dtype(operands, attrs))
