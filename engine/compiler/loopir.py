"""The loop language of fused kernels: rows of a space, and what happens once a row and once a vector of it.

A kernel runs over rows; a row has ``n`` elements. Values are numbered; each line assigns one or stores one,
so a kernel is in single-assignment form and prints one line a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from engine.core.dtype import DType

Kind = Literal["each", "rows", "lanes", "columns", "blocks", "finish", "total"]
Along = Literal["dense", "repeat", "strided"]
"""How a buffer runs along a row: elements side by side, one element for all, or a stride apart."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """An argument of the kernel. ``scratch`` ones hold one row a chunk, between two stages; ``partial`` ones
    a row for each lane of each block of rows. ``windows`` are the axes, outer ones first and then the row,
    along which only some indices are in the buffer. Of ``rows``, loads and stores pick one as the kernel
    runs; those of a scratch buffer hold one step of elements each.
    """

    dtype: DType
    along: Along
    written: bool = False
    scratch: bool = False
    partial: bool = False
    windows: tuple[int, ...] = ()
    rows: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """``value`` is the same number everywhere; ``raw`` are its little-endian bytes."""

    value: int
    dtype: DType
    raw: bytes


@dataclass(frozen=True, slots=True)
class Load:
    """``fill`` is the value outside of a buffer's windows, ``row`` the number of the row that is read,
    brought into range.
    """

    value: int
    buffer: int
    fill: int | None = None
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """The numbers of a counter: they grow by its strides from element to element."""

    value: int
    counter: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Draw:
    """Words of the random stream of a key, an ordinal and a turn. With four ``values`` the counter's numbers
    are those of blocks of words, with one those of words.
    """

    values: tuple[int, ...]
    counter: int
    key: tuple[int, int]
    ordinal: int
    turn: int


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
class Collect:
    """Combines ``operand`` into what a partial buffer has for this row's lane, or for this block."""

    buffer: int
    kind: str
    operand: int


@dataclass(frozen=True, slots=True)
class Store:
    buffer: int
    value: int
    row: int | None = None


@dataclass(frozen=True, slots=True)
class First:
    """A bool: which elements of a step exist."""

    value: int


@dataclass(frozen=True, slots=True)
class Carry:
    """A value that each turn replaces by ``next``, all carries at once; ``single`` ones are one number."""

    value: int
    first: int
    next: int
    dtype: DType
    single: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """Turns of ``body``, whose number is ``turn``: ``count`` of them, at most as many as the counter
    ``limit`` says; none after one with ``stop``, or once no element is ``active``. ``stacks`` are buffers
    whose rows for turns that are not taken become zero, with that zero.
    """

    turn: int
    count: int | None
    limit: int | None
    carries: tuple[Carry, ...]
    body: tuple[Line, ...]
    stop: int | None
    active: int | None
    stacks: tuple[tuple[int, int], ...]


Line: TypeAlias = Load | Count | Draw | Apply | Reduce | Collect | Store | First | Loop


def lines_of(lines: Iterable[Line]) -> Iterator[Line]:
    """``lines`` and those of loops among them."""
    pending = [iter(lines)]
    while pending:
        line = next(pending[-1], None)
        if line is None:
            pending.pop()
            continue
        yield line
        if isinstance(line, Loop):
            pending.append(iter(line.body))


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass along a row: ``row`` lines run once before it, ``inner`` lines for each vector of elements."""

    row: tuple[Line, ...]
    inner: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """``kind`` each: no reduction, chunks are blocks of rows and columns. rows: reductions along rows, chunks
    are blocks of rows. lanes: the same with reductions over all rows beside, chunks are lanes of their tree.
    columns: reductions over all rows alone, chunks are blocks of columns, one stage. blocks: reductions over
    one long row, chunks are blocks of their tree, each with an element of the partial buffers. finish and
    total: the end of the tree of what lanes or blocks have collected; buffers are that and the result.

    ``rank`` is the number of outer dimensions, ``lanes`` the element size in bytes that a vector is counted
    in: that of the smallest elements.
    """

    kind: Kind
    rank: int
    lanes: int
    buffers: tuple[Buffer, ...]
    constants: tuple[Constant, ...]
    stages: tuple[Stage, ...]
    counters: tuple[Along, ...]
    """How numbers that kernels count run along a row."""
    last: tuple[Line, ...]
    """Lines once a row after the last stage: results of rows; of columns, once a block of columns."""
