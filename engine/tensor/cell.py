"""The cell beneath a Tensor, and the one function through which every eager operation runs.

A cell holds a value (an array) and, where a gradient may be asked for, the node that computed it. History is
recorded only while grad mode is on and an operand requires a gradient; a cell without history makes its leaf
node when one is first needed, so code under ``no_grad`` never touches the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, cast
from weakref import ReferenceType, ref

from engine.core.dtype import DType, bool_
from engine.core.node import Node
from engine.core.opdef import OPS, make
from engine.devices.array import Array
from engine.devices.device import current_device
from engine.errors import DTypeError

if TYPE_CHECKING:
    from engine.tensor.tensor import Tensor

Shape = tuple[int, ...]

_recording: ContextVar[bool | Literal["all"]] = ContextVar("recording", default=True)


def is_recording() -> bool:
    """Whether operations record their history."""
    return bool(_recording.get())


@contextmanager
def no_grad() -> Iterator[None]:
    """Within this context, or a function decorated with ``@no_grad()``, no history is recorded."""
    token = _recording.set(False)
    try:
        yield
    finally:
        _recording.reset(token)


@contextmanager
def enable_grad() -> Iterator[None]:
    """Turns recording on again inside ``no_grad``."""
    token = _recording.set(True)
    try:
        yield
    finally:
        _recording.reset(token)


@contextmanager
def record_all() -> Iterator[None]:
    """Every operation within this context records its node, whether or not a gradient may be asked for."""
    token = _recording.set("all")
    try:
        yield
    finally:
        _recording.reset(token)


class Host(NamedTuple):
    """Numbers that are computed on the host before each run of a compiled function."""

    produce: Callable[[], list[Array]]
    kinds: tuple[tuple[Shape, DType], ...]
    undo: Callable[[], None]


class Trace(Protocol):
    """What runs instead of arithmetic while a function is traced: ``engine.tracing`` makes one."""

    def meet(self, cells: Sequence[Cell]) -> None:
        """Called before ``cells`` are read by an operation or rebound."""

    def meet_grad(self, cell: Cell, written: bool) -> None:
        """Called before the gradient of ``cell`` is read or written."""

    def from_host(self, host: Host) -> list[Tensor]: ...

    def depend_on(self, read: Callable[[], Any]) -> None:
        """What is traced holds as long as ``read`` gives what it gives now."""

    def suspended(self) -> AbstractContextManager[None]: ...

    @property
    def turns(self) -> tuple[Tensor, ...]:
        """The turn numbers of the loops whose bodies are traced, the outermost first."""


current_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)


def from_host(
    produce: Callable[[], list[Array]],
    kinds: Sequence[tuple[Shape, DType]],
    undo: Callable[[], None] = lambda: None,
) -> list[Tensor]:
    """Tensors of ``kinds`` that ``produce`` computes on the host; compiled functions call it in each run.

    ``undo`` takes back what ``produce`` changed, if that run fails.
    """
    trace = current_trace.get()
    if trace is None:
        return [wrap(value) for value in produce()]
    return trace.from_host(Host(produce, tuple(kinds), undo))


def meet(x: Cell) -> None:
    """Tells the trace, if there is one, that the value of ``x`` is taken without an operation."""
    trace = current_trace.get()
    if trace is not None:
        trace.meet((x,))


def loop_turns() -> tuple[Tensor, ...]:
    """The turn numbers, int64 scalars, of the loops around, the outermost first."""
    trace = current_trace.get()
    return () if trace is None else trace.turns


def depend_on(read: Callable[[], Any]) -> None:
    """Says that what follows holds only as long as ``read`` gives what it gives now."""
    trace = current_trace.get()
    if trace is not None:
        trace.depend_on(read)


@contextmanager
def untraced() -> Iterator[None]:
    """Inside the block values are computed at once, also while a function is traced."""
    trace = current_trace.get()
    with nullcontext() if trace is None else trace.suspended():
        yield


class Leaf(Node):
    """A node without operands whose value some cell holds; gradients of leaves accumulate in that cell."""

    __slots__ = ("cell",)

    cell: ReferenceType[Cell]


class Cell:
    """A value, its shape and dtype, and its history."""

    __slots__ = ("__weakref__", "_grad", "_node", "_requires_grad", "_value", "dtype", "shape")

    result: ClassVar[type[Tensor]]
    """The class of every result; operations on a Parameter give plain Tensors."""

    shape: Shape
    dtype: DType
    _value: Array
    _node: Node | None
    _requires_grad: bool
    _grad: Tensor | None

    def _set(self, value: Array, node: Node | None = None, requires_grad: bool = False) -> None:
        """Rebinds this cell; the only place that writes its value."""
        self._value = value
        self.shape = value.shape
        self.dtype = value.dtype
        self._node = node
        self._requires_grad = requires_grad

    @property
    def node(self) -> Node:
        """The node that computed this value; a leaf where no history was recorded."""
        node = self._node
        if node is None:
            leaf = Leaf("input", (), (), self.shape, self.dtype, self._value)
            leaf.cell = ref(self)
            self._node = node = leaf
        return node

    @property
    def is_leaf(self) -> bool:
        """Whether no history leads here."""
        return self._node is None or not self._node.inputs


def wrap(value: Array, node: Node | None = None, requires_grad: bool = False) -> Tensor:
    """A new Tensor around an array, which nobody may write to afterwards."""
    kind = Cell.result
    cell = kind.__new__(kind)
    cell._value = value
    cell.shape = value.shape
    cell.dtype = value.dtype
    cell._node = node
    cell._requires_grad = requires_grad
    cell._grad = None
    return cell


def detach(x: Cell) -> Tensor:
    """The value of x without its history."""
    if _recording.get() == "all":
        result = apply("detach", (x,))
        result._requires_grad = False
        return result
    meet(x)
    return wrap(x._value)


def clone(x: Cell) -> Tensor:
    """The value of x as a tensor of its own, through which the gradient passes unchanged."""
    return apply("pass_grad", (x,))


_known: dict[tuple[Any, ...], tuple[Shape, DType]] = {}
_KNOWN_LIMIT = 20_000


def infer(op: str, inputs: tuple[Cell, ...], attrs: tuple[Any, ...]) -> tuple[Shape, DType]:
    """Shape and dtype of a result by the table's rules, remembered for operands seen before."""
    key = (op, attrs, *[(x.shape, x.dtype) for x in inputs])
    found = _known.get(key)
    if found is None:
        node = make(op, tuple([Node("input", (), (), x.shape, x.dtype) for x in inputs]), *attrs)
        if len(_known) >= _KNOWN_LIMIT:
            _known.clear()
        found = _known[key] = cast(Shape, node.shape), node.dtype
    return found


def apply(op: str, inputs: tuple[Cell, ...], *attrs: Any) -> Tensor:
    """Runs primitive ``op`` on the current device and records it where a gradient may be asked for."""
    shape, dtype = infer(op, inputs, attrs)
    return _run(op, inputs, attrs, shape, dtype)


def _run(op: str, inputs: tuple[Cell, ...], attrs: tuple[Any, ...], shape: Shape, dtype: DType) -> Tensor:
    trace = current_trace.get()
    if trace is not None:
        trace.meet(inputs)
    value = current_device().run(op, attrs, [x._value for x in inputs], shape, dtype)
    recording = _recording.get()
    if recording:
        requires_grad = dtype.kind == "float" and _any_requires_grad(inputs)
        if requires_grad or recording == "all":
            node = Node(op, tuple([x.node for x in inputs]), attrs, shape, dtype, value)
            return wrap(value, node, requires_grad)
    return wrap(value)


def _any_requires_grad(inputs: tuple[Cell, ...]) -> bool:
    for x in inputs:  # noqa: SIM110  a generator would double the cost of an operation's bookkeeping
        if x._requires_grad:
            return True
    return False


def elementwise(op: str, *inputs: Cell) -> Tensor:
    """``apply`` for primitives whose result has the shape and dtype of their operands, which agree."""
    first = inputs[0]
    _check_dtype(op, first.dtype)
    return _run(op, inputs, (), first.shape, first.dtype)


def compare(op: str, a: Cell, b: Cell) -> Tensor:
    """``apply`` for lt, le and eq on operands that agree already."""
    _check_dtype(op, a.dtype)
    return _run(op, (a, b), (), a.shape, bool_)


def _check_dtype(op: str, dtype: DType) -> None:
    if dtype not in OPS[op].dtypes:
        accepted = ", ".join(map(str, OPS[op].dtypes))
        raise DTypeError(f"{op} does not take {dtype}; it takes {accepted}")
