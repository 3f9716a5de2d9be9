"""Tracing: a function of Tensors runs once on a device that computes nothing and writes a graph instead.

Everything else is as in eager: the same operations, the same histories, the same gradients, so the graph has
the same bits. What a cell from outside holds becomes an input of the graph when an operation first reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import ReferenceType, ref

from engine.core.dim import RELATIONS, Dim, Relation, evaluate, is_static
from engine.core.dim import Shape as SymbolicShape
from engine.core.node import Node
from engine.devices.array import Array
from engine.devices.device import Device, use_device
from engine.errors import GradientError
from engine.tensor import Tensor
from engine.tensor.cell import Cell, Host, current_trace, wrap
from engine.tracing.symbols import Symbol, SymbolDevice, sizes_in_doubt, user_line


@dataclass(slots=True, eq=False)
class Lifted:
    """A cell whose value became an input.

    ``owner`` is the one whose gradient this cell was. ``grad_read`` tells whether the function read the
    gradient before it wrote one, which ``grad_written`` tells.
    """

    cell: ReferenceType[Cell]
    value: Array
    history: Node | None
    requires_grad: bool
    grad: Tensor | None
    symbol: Symbol
    owner: Lifted | None = None
    grad_read: bool = False
    grad_written: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two sizes compared that have symbols."""

    relation: Relation
    left: Dim
    right: Dim
    outcome: bool

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return compared(self.relation, self.left, self.right, sizes) is self.outcome


def compared(relation: Relation, left: Dim, right: Dim, sizes: Mapping[str, int]) -> bool:
    return RELATIONS[relation](evaluate(left, sizes), evaluate(right, sizes))


@dataclass(slots=True)
class Tracer:
    """One tracing of one function, for arguments of these ``sizes``: ``Trace`` of ``engine.tensor.cell``.

    Where the function compares sizes, it goes the way of these; ``comparisons`` says what that depends on.
    """

    device: Device
    sizes: Mapping[str, int]
    symbols: SymbolDevice = field(default_factory=SymbolDevice)
    lifted: list[Lifted] = field(default_factory=list)
    hosts: list[Host] = field(default_factory=list)
    numbers: list[Node] = field(default_factory=list)
    guards: list[tuple[Callable[[], Any], Any]] = field(default_factory=list)
    comparisons: dict[Comparison, None] = field(default_factory=dict)
    turns: tuple[Tensor, ...] = ()
    _by_cell: dict[int, Lifted] = field(default_factory=dict)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Inside the block the current context traces; afterwards every cell holds what it held before."""
        token = current_trace.set(self)
        try:
            with use_device(self.symbols), sizes_in_doubt(self.compare):
                yield
        finally:
            current_trace.reset(token)
            self._restore()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        token = current_trace.set(None)
        try:
            with use_device(self.device):
                yield
        finally:
            current_trace.reset(token)

    def compare(self, relation: Relation, left: Dim, right: Dim) -> bool:
        outcome = compared(relation, left, right, self.sizes)
        self.comparisons[Comparison(relation, left, right, outcome)] = None
        return outcome

    def meet(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            if isinstance(cell._value, Array) and is_static(cell.shape) and not is_constant(cell):
                self.lift(cell)

    def lift(self, cell: Cell, owner: Lifted | None = None, shape: SymbolicShape | None = None) -> Lifted:
        """Turns the value of a cell into an input, maybe of a symbolic shape.

        ``owner`` is there if the cell is that one's gradient.
        """
        if cell._requires_grad and not cell.is_leaf and owner is None:
            raise GradientError(
                f"{user_line()}: a tensor from outside a compiled function has a history, which the function "
                "cannot go back through; give it x.detach(), or compute x inside"
            )
        value = cell._value
        symbol = Symbol(
            Node("input", (), (), value.shape if shape is None else shape, value.dtype), self.symbols
        )
        lifted = Lifted(ref(cell), value, cell._node, cell._requires_grad, cell._grad, symbol, owner)
        cell._set(symbol, None, cell._requires_grad and owner is None)  # type: ignore[arg-type]
        self.lifted.append(lifted)
        self._by_cell[id(cell)] = lifted
        return lifted

    def meet_grad(self, cell: Cell, written: bool) -> None:
        self.meet((cell,))
        lifted = self._by_cell.get(id(cell))
        if lifted is None or lifted.cell() is not cell or lifted.grad_written:
            return
        if written:
            lifted.grad_written = True
        elif not lifted.grad_read:
            lifted.grad_read = True
            grad = cell._grad
            if grad is not None and isinstance(grad._value, Array):
                self.lift(grad, lifted, lifted.symbol.shape)

    def from_host(self, host: Host) -> list[Tensor]:
        nodes = [Node("input", (), (), shape, dtype) for shape, dtype in host.kinds]
        self.hosts.append(host)
        self.numbers += nodes
        return [wrap(Symbol(node, self.symbols)) for node in nodes]  # type: ignore[arg-type]

    def depend_on(self, read: Callable[[], Any]) -> None:
        self.guards.append((read, read()))

    def _restore(self) -> None:
        for lifted in self.lifted:
            cell = lifted.cell()
            if cell is not None:
                cell._set(lifted.value, lifted.history, lifted.requires_grad)
                cell._grad = lifted.grad


def is_constant(cell: Cell) -> bool:
    """Whether the history of a cell is a number written in the function."""
    node = cell._node
    return node is not None and (
        node.op == "constant" or (node.op == "broadcast" and node.inputs[0].op == "constant")
    )
