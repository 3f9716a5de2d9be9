"""The loop language of fused kernels: rows of a space, and what happens once a row and once a vector of it.

A kernel runs over rows; a row has ``n`` elements. Values are numbered; each line assigns one or stores one, so a
kernel is in single-assignment form and prints one line a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from engine.core.dtype import DType

Along = Literal["dense", "repeat", "strided"]
"""How a buffer runs along a row: elements side by side, one element for all, or a stride apart."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """An argument of the kernel. ``scratch`` ones hold one row a chunk, between two stages."""

    dtype: DType
    along: Along
    written: bool = False
    scratch: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """``value`` is the same number everywhere; ``raw`` are its little-endian bytes."""

    value: int
    dtype: DType
    raw: bytes


@dataclass(frozen=True, slots=True)
class Load:
    value: int
    buffer: int


@dataclass(frozen=True, slots=True)
class Apply:
    """An elementwise primitive."""

    value: int
    op: str
    operands: tuple[int, ...]
    dtypes: tuple[DType, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Reduce:
    """Combines ``operand`` along the row (or, in a column kernel, over the rows) by the fixed tree."""

    value: int
    kind: str
    operand: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Store:
    buffer: int
    value: int


Line: TypeAlias = Load | Apply | Reduce | Store


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass along a row: ``row`` lines run once before it, ``inner`` lines for each vector of elements."""

    row: tuple[Line, ...]
    inner: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """``kind`` each: no reduction, chunks are blocks of rows and columns. rows: reductions along rows, chunks are
    blocks of rows. columns: reductions over all rows, chunks are blocks of columns, one stage.

    ``rank`` is the number of outer dimensions, ``lanes`` the element size in bytes that a vector is counted in.
    """

    kind: Literal["each", "rows", "columns"]
    rank: int
    lanes: int
    buffers: tuple[Buffer, ...]
    constants: tuple[Constant, ...]
    stages: tuple[Stage, ...]
    last: tuple[Line, ...]
    """Lines once a row after the last stage: results of rows; of columns, once a block of columns."""
