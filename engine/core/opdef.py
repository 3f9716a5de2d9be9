"""What a row of the primitive table holds, and the one function that makes nodes from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from engine.core.dim import Shape
from engine.core.dtype import DType
from engine.core.node import Node
from engine.errors import DTypeError

Kind: TypeAlias = Literal[
    "leaf", "elementwise", "movement", "reduce", "dot", "index", "marker", "region", "item"
]
Inputs: TypeAlias = tuple[Node, ...]
Attrs: TypeAlias = tuple[Any, ...]
ShapeRule: TypeAlias = Callable[[Inputs, Attrs], Shape]
DTypeRule: TypeAlias = Callable[[Inputs, Attrs], DType]
GradientRule: TypeAlias = Callable[[Node, Node], tuple[Node | None, ...]]
"""Maps a node and the cotangent of its value to the cotangent of each input; None where none flows."""
RegionRule: TypeAlias = Callable[[Node, Mapping[int, Node], Sequence[bool]], tuple[Node | None, ...]]
"""As GradientRule, from the cotangents of those results that have one; told which inputs' are wanted."""


@dataclass(frozen=True, slots=True)
class Values:
    """One operand of a test case, written out: nested tuples of numbers and their dtype."""

    data: Any
    dtype: DType


@dataclass(frozen=True, slots=True)
class Case:
    """Operands and attributes of one application, from which tests are generated.

    An operand is a shape (the test fills it with distinct real values) or ``Values``.
    """

    operands: tuple[tuple[int, ...] | Values, ...]
    attrs: Attrs = ()


@dataclass(frozen=True, slots=True)
class OpDef:
    """One primitive.

    ``arity`` is the number of inputs, or None for any number. ``attrs`` names the attributes in their order.
    ``dtypes`` are those that any input may have; ``shape`` and ``dtype`` give the result's and raise for
    inputs that do not fit. ``gradient`` is None where no gradient flows to any input; regions, which have
    several results, have a RegionRule. ``c`` is the C expression over vectors, with ``{0}``, ``{1}`` … for
    operands, ``{t}`` for the suffix of the first operand's dtype (of the value's dtype for ``select``) and
    ``{u}`` for that of the result. Predicates are masks of the operand's lane width. Elementwise primitives
    have one, all others have none. ``cost`` is arithmetic per element in units of one addition; fusion weighs
    recomputing against storing with it. ``samples`` are what the tests of value and gradient are generated
    from: tuples of operand values for elementwise primitives, ``Case`` for the others.
    """

    name: str
    kind: Kind
    arity: int | None
    attrs: tuple[str, ...]
    dtypes: tuple[DType, ...]
    shape: ShapeRule
    dtype: DTypeRule
    gradient: GradientRule | RegionRule | None
    samples: tuple[tuple[float, ...] | Case, ...]
    cost: int = 1
    c: str | None = None


OPS: dict[str, OpDef] = {}


def define(row: OpDef) -> None:
    """Adds a row to the table; called by ``core.ops`` alone."""
    if row.name in OPS:
        raise ValueError(f"primitive {row.name!r} is defined twice")
    OPS[row.name] = row


def make(op: str, inputs: Inputs, *attrs: Any) -> Node:
    """A node of primitive ``op``, its shape and dtype derived by the table's rules.

    Leaves have no inputs to derive them from and are made by ``core.build``. Raises ShapeError or DTypeError,
    naming the primitive, what it got and the rule that is broken.
    """
    row = OPS[op]
    if len(inputs) != row.arity and row.arity is not None:
        raise TypeError(f"{op} takes {row.arity} inputs, got {len(inputs)}")
    dtypes = row.dtypes
    for operand in inputs:
        if operand.dtype not in dtypes:
            raise DTypeError(f"{op} does not take {operand.dtype}; it takes {', '.join(map(str, dtypes))}")
    try:
        return Node(op, inputs, attrs, row.shape(inputs, attrs), row.dtype(inputs, attrs))
    except (ValueError, TypeError) as error:
        raise type(error)(f"{op}: {error}") from None
