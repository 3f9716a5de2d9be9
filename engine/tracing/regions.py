"""Loops and conditions over Tensors: their bodies are run once, on symbols, wherever they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from engine.autodiff.invariant import Turns, without_invariants
from engine.autodiff.loops import saving
from engine.autodiff.segments import segmented
from engine.core import build as b
from engine.core.dim import Dim, Poly
from engine.core.dtype import DType, bool_, int64
from engine.core.node import Node
from engine.core.region import Region, Save, check_branches, check_carry, check_lanes, params_like, results
from engine.core.shapes import text
from engine.devices.array import Array
from engine.devices.device import Device, current_device, use_device
from engine.devices.evaluate import evaluate
from engine.errors import DTypeError, ShapeError, TracingError
from engine.tensor import Tensor, where
from engine.tensor.cell import (
    Cell,
    Host,
    Trace,
    current_trace,
    is_recording,
    meet,
    record_all,
    wrap,
)
from engine.tensor.promotion import as_tensor, cast
from engine.tracing.pytree import Structure, flatten, names, unflatten
from engine.tracing.symbols import Symbol, SymbolDevice, user_line
from engine.tracing.tracer import is_constant


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn of a loop leaves: carries for the next, slices to stack, and whether it is the last one."""

    carries: Any
    stacked: Any = ()
    stop: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Looped:
    """What a loop gives: its carries after the last turn, its stacks, and how many turns were taken."""

    carries: Any
    stacked: Any
    turns: Tensor


Body = Callable[[Tensor, Any], Any]


def loop(
    trip: Dim | Tensor,
    body: Body,
    carries: Any,
    *,
    most: Dim | None = None,
    save: Save | Literal["sqrt"] | None = None,
) -> Looped:
    """``body(turn, carries)`` again and again, ``trip`` times: a number, a symbolic size, or an int scalar.

    ``carries`` is a tree of Tensors and numbers; ``body`` gives such a tree with the same shapes and dtypes,
    or a ``Turn``. It is called once, with symbols, and may use Tensors from outside. ``turn`` is int64. The
    turn whose ``stop`` holds is the last one; if ``stop`` has a shape, which must broadcast to every carry's,
    a lane that has stopped keeps its carries while others go on. Stacks have one slice a turn, zeros for
    turns not taken, and as many as ``trip`` says, or ``most`` where that is a Tensor.

    For gradients, ``save`` says before which turns carries are kept: ``every`` one, every √n-th (``sqrt``,
    where the number of turns or its bound is an int), or only the ``first``; the others are computed again
    from these. The default is ``every``, and ``first`` where nothing bounds the number of turns. Raises
    ShapeError and DTypeError for a carry that changes, naming it, and TracingError for a value asked for.
    """
    count, limit = _trip(trip, most)
    if limit is None and save not in (None, "first"):
        raise ValueError(
            f"save is {save!r} and nothing bounds the number of turns; give most, or save='first'"
        )
    structure, initial = flatten(carries, numbers=True)
    called = names(structure, "carries")
    with _Trace(loops=True) as trace:
        assert trace.turn is not None
        params = [trace.param(x) for x in initial]
        given = body(trace.turn, unflatten(structure, params))
        given = given if isinstance(given, Turn) else Turn(given)
        after, following = flatten(given.carries, numbers=True)
        if after != structure:
            raise TracingError(
                f"{user_line()}: the body takes {', '.join(called) or 'nothing'} and gives "
                f"{', '.join(names(after, 'carries')) or 'nothing'}; carries keep their structure"
            )
        for name, old, new in zip(called, params, following, strict=True):
            check_carry(f"{user_line()}: {name}", (old.shape, old.dtype), (new.shape, new.dtype))
        stacking, slices = flatten(given.stacked, numbers=True)
        stop = None if given.stop is None else as_tensor(given.stop)
        _check_stop(stop, [*called, *names(stacking, "stacked")], [*following, *slices])
        outs = trace.nodes([*following, *slices, *([] if stop is None else [stop])])
    meet_all([*([] if count is None else [count]), *initial, *trace.captured])
    turns = Turns(
        trace.node(trace.turn),
        tuple([trace.node(x) for x in params]),
        tuple(trace.params),
        tuple(outs[: len(params)]),
        tuple(outs[len(params) : len(params) + len(slices)]),
        None if stop is None else outs[-1],
        tuple([x.node for x in initial]),
        tuple([x.node for x in trace.captured]),
    )
    left = without_invariants(turns, limit)
    needs = is_recording() and any(x.requires_grad for x in [*initial, *trace.captured])
    counts = None if count is None else count.node
    if save == "sqrt":
        nodes = segmented(left, _known(limit), counts)
    else:
        node = b.loop(left.body(), left.initial, left.held, limit, counts, save or "every")
        nodes = _items(node if not needs else saving(node), len(results(node)))
    last = 1 + len(left.carries)
    nodes = [nodes[0], *left.ends(nodes[1:last], turns), *nodes[last:]]
    taken, *values = _evaluated(nodes, needs)
    return Looped(
        unflatten(structure, values[: len(initial)]), unflatten(stacking, values[len(initial) :]), taken
    )


def cond(pred: Tensor | bool, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """``then(*operands)`` where ``pred`` holds, else ``otherwise(*operands)``: trees of Tensors that agree.

    Both are called once, with symbols, and may use Tensors from outside; only the one that is chosen
    computes. If ``pred`` has a shape, both compute, and each lane takes its own, as with ``where``. Random
    calls of both count, whichever is chosen. Raises ShapeError, DTypeError and TracingError for branches that
    do not agree.
    """
    pred = as_tensor(pred)
    if pred.dtype is not bool_:
        raise DTypeError(f"the predicate of cond is {pred.dtype}; it must be bool: compare with something")
    if pred.shape:
        one, other = flatten(then(*operands), numbers=True), flatten(otherwise(*operands), numbers=True)
        structure, called = _agreeing(one, other)
        chosen = [where(pred, a, c) for a, c in zip(one[1], other[1], strict=True)]
        return unflatten(structure, chosen)
    traces, trees, nodes = [], [], []
    for branch in (then, otherwise):
        with _Trace() as trace:
            tree = flatten(branch(*operands), numbers=True)
            nodes.append(trace.nodes(tree[1]))
        traces.append(trace)
        trees.append(tree)
    structure, called = _agreeing(*trees)
    for name, one, other in zip(called, *nodes, strict=True):
        check_branches(f"{user_line()}: {name}", (one.shape, one.dtype), (other.shape, other.dtype))
    captured = list({id(x): x for trace in traces for x in trace.captured}.values())
    regions = [
        Region([trace.own(x) for x in captured], outs) for trace, outs in zip(traces, nodes, strict=True)
    ]
    meet_all([pred, *captured])
    node = b.cond(pred.node, regions[0], regions[1], tuple([x.node for x in captured]))
    needs = is_recording() and any(x.requires_grad for x in captured)
    return unflatten(structure, _evaluated(_items(node, len(called)), needs))


def _trip(trip: Dim | Tensor, most: Dim | None) -> tuple[Tensor | None, Dim | None]:
    """Count and limit of turns."""
    if isinstance(trip, Tensor):
        if trip.shape or not trip.dtype.is_int:
            raise ShapeError(
                f"trip is {trip.dtype} of shape {text(trip.shape)}; it must be an integer scalar, shape ()"
            )
        return cast(trip, int64), most
    if most is not None:
        raise ValueError(f"most is {most}, but trip is {trip} already; most bounds a trip that is a Tensor")
    if isinstance(trip, bool) or not isinstance(trip, int | Poly):
        raise TypeError(f"trip is {trip!r}; it must be an int, a symbolic size, or an integer Tensor")
    return None, max(trip, 0) if isinstance(trip, int) else trip


def _known(limit: Dim | None) -> int:
    if not isinstance(limit, int):
        raise ShapeError(
            f"save is 'sqrt' and the number of turns {limit}; it must be known as an int, or bounded"
        )
    return limit


def _check_stop(stop: Tensor | None, called: Sequence[str], left: Sequence[Tensor]) -> None:
    if stop is None:
        return
    if stop.dtype is not bool_:
        raise DTypeError(f"{user_line()}: stop is {stop.dtype}; it must be bool: compare with something")
    for name, x in zip(called, left, strict=True):
        check_lanes(f"{user_line()}: {name}", stop.shape, x.shape)


def _agreeing(
    one: tuple[Structure, list[Tensor]], other: tuple[Structure, list[Tensor]]
) -> tuple[Structure, list[str]]:
    """The common structure of both branches' results, and what to call its leaves."""
    if one[0] != other[0]:
        both = [", ".join(names(tree[0], "result")) or "nothing" for tree in (one, other)]
        raise TracingError(
            f"{user_line()}: one branch gives {both[0]}, the other {both[1]}; both give one structure"
        )
    return one[0], names(one[0], "result")


def _items(node: Node, count: int) -> list[Node]:
    return [b.item(node, k) for k in range(count)]


def _evaluated(nodes: Sequence[Node], requires_grad: bool) -> list[Tensor]:
    """Nodes as Tensors with their history."""
    values = evaluate(nodes, current_device())
    return [
        wrap(value, own, requires_grad and own.dtype.is_float)
        for value, own in zip(values, nodes, strict=True)
    ]


def meet_all(cells: Sequence[Tensor]) -> None:
    """Tells the trace that is around, if there is one, that these cells are read."""
    for cell in cells:
        meet(cell)


def alias(value: Any) -> Any:
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


class _Trace:
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

    def __enter__(self) -> _Trace:
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
            cell._value = alias(cell._value)
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
