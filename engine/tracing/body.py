"""The trace of one body: what a loop or a condition runs once, on symbols, to know its region."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from engine.core import build as b
from engine.core.dtype import DType, int64
from engine.core.node import Node
from engine.core.region import params_like
from engine.devices.array import Array
from engine.devices.device import Device, current_device, use_device
from engine.errors import TracingError
from engine.tensor import Tensor
from engine.tensor.cell import Cell, Host, Trace, current_trace, is_recording, record_all, wrap
from engine.tracing.symbols import Symbol, SymbolDevice, user_line
from engine.tracing.tracer import is_constant


def _alias(value: Any) -> Any:
    """The same value as another object."""
    if isinstance(value, Symbol):
        return Symbol(value.node, value.owner)
    return Array(value.storage, value.offset, value.shape, value.strides, value.dtype)


class _Symbols(SymbolDevice):
    """The device of one body: values from outside are its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.params: dict[int, Node] = {}  # by the identity of values from outside

    def run(
        self, op: str, attrs: tuple[Any, ...], inputs: Sequence[Any], shape: tuple[int, ...], dtype: DType
    ) -> Any:
        node = Node(op, tuple([self.node(x) for x in inputs]), attrs, shape, dtype)
        return Symbol(node if is_recording() else b.detach(node), self)

    def node(self, x: Any) -> Node:
        return self.params.get(id(x)) or super().node(x)


class BodyTrace:
    """Told of operations while a body is traced: cells from outside that it reads become parameters."""

    def __init__(self, loops: bool = False) -> None:
        self.captured: list[Tensor] = []
        self.params: list[Node] = []
        self.turn: Tensor | None = None
        self._symbols = _Symbols()
        self._outer: Trace | None = current_trace.get()
        self._device: Device = current_device()
        self._values: list[Any] = []
        self._known: set[int] = set()
        self._block = self._active()
        if loops:
            self.turn = self._symbol(Node("input", (), (), (), int64))

    def __enter__(self) -> BodyTrace:
        self._block.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._block.__exit__(*error)
        rebound = [
            (cell, value)
            for cell, value in zip(self.captured, self._values, strict=True)
            if cell._value is not value
        ]
        for cell, value in rebound:
            cell._set(value, cell._node, cell._requires_grad)
        if rebound and error[0] is None:
            raise TracingError(
                f"{user_line()}: the body rebinds a tensor from outside (in place, +=, assign); "
                "make it a carry, or a result"
            )

    @contextmanager
    def _active(self) -> Iterator[None]:
        token = current_trace.set(self)
        try:
            with use_device(self._symbols), record_all():
                yield
        finally:
            current_trace.reset(token)

    # ---- nodes

    def _symbol(self, node: Node) -> Tensor:
        return wrap(Symbol(node, self._symbols))  # type: ignore[arg-type]

    def param(self, x: Tensor) -> Tensor:
        """A parameter of the body that takes the shape and dtype of ``x``."""
        return self._symbol(Node("input", (), (), x.shape, x.dtype))

    def node(self, x: Tensor) -> Node:
        """The node of a Tensor in the body."""
        return self._symbols.node(x._value)

    def nodes(self, tensors: Sequence[Tensor]) -> list[Node]:
        """Those of the body's results, which may come from outside as they are."""
        self.meet(tensors)
        return [self.node(x) for x in tensors]

    def own(self, x: Tensor) -> Node:
        """The parameter of a captured Tensor; a new one where only the other branch reads it."""
        known = self._symbols.params.get(id(x._value))
        return params_like([x.node])[0] if known is None else known

    # ---- Trace of engine.tensor.cell

    @property
    def turns(self) -> tuple[Tensor, ...]:
        outer = () if self._outer is None else self._outer.turns
        return outer if self.turn is None else (*outer, self.turn)

    def meet(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            value: Any = cell._value
            own = isinstance(value, Symbol) and value.owner is self._symbols
            if not own and id(cell) not in self._known and not is_constant(cell):
                self._capture(cell)

    def _capture(self, cell: Any) -> None:
        if self._outer is not None:
            with self._outside():
                self._outer.meet((cell,))
        if id(cell._value) in self._symbols.params:  # two cells, with histories of their own, share a value
            cell._value = _alias(cell._value)
        param = Node("input", (), (), cell.shape, cell.dtype)
        self._symbols.params[id(cell._value)] = param
        self._known.add(id(cell))
        self.params.append(param)
        self.captured.append(cell)
        self._values.append(cell._value)

    def meet_grad(self, cell: Cell, written: bool) -> None:
        if self._outer is not None:
            with self._outside():
                self._outer.meet_grad(cell, written)

    def depend_on(self, read: Callable[[], Any]) -> None:
        if self._outer is not None:
            self._outer.depend_on(read)

    def from_host(self, host: Host) -> list[Tensor]:
        with self._outside():
            return (
                [wrap(value) for value in host.produce()]
                if self._outer is None
                else self._outer.from_host(host)
            )

    @contextmanager
    def _outside(self) -> Iterator[None]:
        """Inside the block things are as they were around the loop."""
        token = current_trace.set(self._outer)
        try:
            with use_device(self._device):
                yield
        finally:
            current_trace.reset(token)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        with self._outside():
            if self._outer is None:
                yield
            else:
                with self._outer.suspended():
                    yield
