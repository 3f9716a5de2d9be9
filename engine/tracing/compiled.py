"""``engine.compile``: a function of Tensors as one plan, with the bits that the function has in eager."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast

from engine.compiler.blueprint import State
from engine.core.node import Node
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.cpu.device import CpuDevice
from engine.devices.device import current_device
from engine.tensor import Tensor
from engine.tensor.cell import Cell, current_trace, is_recording, wrap
from engine.tracing.executable import Executable
from engine.tracing.pytree import Structure, flatten, unflatten
from engine.tracing.tracer import Lifted, Tracer

P = ParamSpec("P")
R = TypeVar("R")


def compile(function: Callable[P, R]) -> Compiled[P, R]:
    """``function`` as a plan: few kernels, one call, the same bits.

    It takes and gives Tensors, and lists, tuples, dicts and dataclasses of them; it may use modules,
    optimisers, generators and Tensors from outside, call ``backward`` and ``step``, and rebind what it meets
    (``assign``, ``+=``, ``.grad``): each call reads what they hold then, and leaves behind what the function
    would. It runs in Python once for each structure, dtype and shape of its arguments, each mode of its
    modules and each choice of gradients present; its other effects happen then only. A value asked for in it
    (``item()``, ``bool``, printing) is a TracingError. Results have no history. Where there is no C compiler
    the function runs as it is.
    """
    return Compiled(function)


class Compiled(Generic[P, R]):
    """A function that ``compile`` returned; ``plans`` counts how often it was traced."""

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function
        self._lock = threading.RLock()
        self._traced: dict[Any, list[_Traced]] = {}
        update_wrapper(self, function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        device = current_device()
        if not isinstance(device, CpuDevice) or current_trace.get() is not None:
            return self._function(*args, **kwargs)
        structure, tensors = flatten((args, kwargs))
        key = (structure, _signature(tensors), is_recording(), device)
        with self._lock:
            known = self._traced.setdefault(key, [])
            for traced in known:
                if traced.holds(tensors):
                    return cast(R, traced.run(tensors))
            traced, hosted = _trace(self._function, args, kwargs, tensors, device)
            known.append(traced)
            return cast(R, traced.run(tensors, hosted))

    @property
    def plans(self) -> list[Any]:
        """The plans made so far."""
        return [traced.executable.plan for known in self._traced.values() for traced in known]


def _signature(tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """Of each tensor its shape, dtype and whether it requires a gradient, and which are the same one."""
    places = {id(x): i for i, x in reversed(list(enumerate(tensors)))}
    return tuple([(x.shape, x.dtype, x._requires_grad, places[id(x)]) for x in tensors])


@dataclass(frozen=True, slots=True)
class _Source:
    """Where an input's value lies: in a cell from outside, in an argument, or in either's gradient."""

    cell: Cell | None
    argument: int
    of_grad: bool

    def find(self, arguments: Sequence[Tensor]) -> Cell:
        return arguments[self.argument] if self.cell is None else self.cell

    def read(self, arguments: Sequence[Tensor]) -> Array:
        cell = self.find(arguments)
        if self.of_grad:
            assert cell._grad is not None
            return cell._grad._value
        return cell._value


@dataclass(frozen=True, slots=True)
class _Traced:
    """One plan, where its inputs come from and where its outputs go.

    Inputs are the ``used`` numbers of the host, what lies in ``sources``, and what ``cells`` hold. ``states``
    are cells that were rebound, ``grads`` cells whose gradient was set: to the number of a target (the first
    ``results`` are what the function returned) or to None. ``presence`` says of which cells the gradient was
    read, and whether there was one; ``flags`` which cells from ``outside`` required gradients.
    """

    executable: Executable
    hosted: tuple[Callable[[], list[Array]], ...]
    used: tuple[int, ...]
    sources: tuple[_Source, ...]
    cells: tuple[Cell, ...]
    structure: Structure
    results: int
    states: tuple[_Source, ...]
    grads: tuple[tuple[_Source, int | None], ...]
    presence: tuple[tuple[_Source, bool], ...]
    outside: tuple[Cell, ...]
    flags: list[bool]
    guards: tuple[tuple[Callable[[], Any], Any], ...]

    def holds(self, arguments: Sequence[Tensor]) -> bool:
        """Whether the function would do again what was traced."""
        return (
            all(read() == value for read, value in self.guards)
            and [cell._requires_grad for cell in self.outside] == self.flags
            and all((source.find(arguments)._grad is not None) == there for source, there in self.presence)
        )

    def run(self, arguments: Sequence[Tensor], hosted: Sequence[Array] | None = None) -> Any:
        """One call; ``hosted`` are the numbers of the host if tracing has made them already."""
        if hosted is None:
            hosted = [value for produce in self.hosted for value in produce()]
        values = [hosted[i] for i in self.used]
        values += [source.read(arguments) for source in self.sources]
        values += [cell._value for cell in self.cells]
        outputs, news = self.executable.run(values)
        for source, value in zip(self.states, news, strict=True):
            cell = source.cell if source.cell is not None else arguments[source.argument]
            if cell._value is not value:  # else it was written in place
                cell._set(value, None, cell._requires_grad)
        for source, place in self.grads:
            source.find(arguments)._grad = None if place is None else wrap(outputs[place])
        return unflatten(self.structure, [wrap(value) for value in outputs[: self.results]])


def _trace(
    function: Callable[..., Any], args: Any, kwargs: Any, tensors: Sequence[Tensor], device: CpuDevice
) -> tuple[_Traced, list[Array]]:
    """Runs ``function`` on symbols; the plan of what it did, and the numbers that the host gave meanwhile."""
    tracer = Tracer(device)
    with tracer.active():
        for x in {id(x): x for x in tensors}.values():
            tracer.lift(x)
        structure, results = flatten(function(*args, **kwargs))
        tracer.meet(results)
        outcome = _Outcome(tracer, tensors, [tracer.symbols.node(x._value) for x in results])
        del results
    for lifted in tracer.lifted:
        if lifted.symbol.node not in outcome.sources:  # made inside
            lifted.symbol.node.value = lifted.value
    hosted = [node for _, _, nodes in tracer.hosted for node in nodes]
    reached = {*post_order([*outcome.targets, *[new for _, new in outcome.changed]])}
    reached |= {old for old, _ in outcome.changed}
    unread = [node for node in dict.fromkeys(tracer.symbols.checks) if node not in reached]
    reached |= {*post_order(unread)}
    used = tuple([i for i, node in enumerate(hosted) if node in reached])
    sources = {node: source for node, source in outcome.sources.items() if node in reached}
    cells = {
        node: source.cell
        for node, source in sources.items()
        if source.cell is not None and not source.of_grad
    }
    sources = {node: source for node, source in sources.items() if node not in cells}
    inputs = [*[hosted[i] for i in used], *sources, *cells]
    traced = _Traced(
        executable=Executable(inputs, [*outcome.targets, *unread], outcome.changed, device),
        hosted=tuple([produce for produce, _, _ in tracer.hosted]),
        used=used,
        sources=tuple(sources.values()),
        cells=tuple(cells.values()),
        structure=structure,
        results=outcome.results,
        states=tuple([outcome.sources[old] for old, _ in outcome.changed]),
        grads=tuple(outcome.grads),
        presence=tuple(outcome.presence),
        outside=tuple(outcome.outside),
        flags=[cell._requires_grad for cell in outcome.outside],
        guards=tuple(tracer.guards),
    )
    return traced, [value for _, values, _ in tracer.hosted for value in values]


class _Outcome:
    """What tracing left in the cells that it met: read before the tracer puts back what they held."""

    def __init__(self, tracer: Tracer, arguments: Sequence[Tensor], results: list[Node]) -> None:
        self.targets = results
        self.results = len(results)
        for cell in [lifted.cell() for lifted in tracer.lifted if lifted.grad_written]:
            if cell is not None and cell._grad is not None:
                tracer.meet((cell._grad,))
        places = {id(x): i for i, x in enumerate(arguments)}
        self.sources: dict[Node, _Source] = {}
        self.changed: list[State] = []
        self.grads: list[tuple[_Source, int | None]] = []
        self.presence: list[tuple[_Source, bool]] = []
        self.outside: list[Cell] = []
        written = []
        for lifted in tracer.lifted:
            cell = lifted.cell()
            if cell is None:
                continue
            source = self.sources[lifted.symbol.node] = _source(lifted, cell, places)
            if lifted.owner is not None:
                continue
            if source.cell is not None:
                self.outside.append(cell)
            if cell._value is not cast(Any, lifted.symbol):
                self.changed.append((lifted.symbol.node, tracer.symbols.node(cell._value)))
            if lifted.grad_written:
                written.append((source, cell._grad))
            if lifted.grad_read:
                self.presence.append((source, lifted.grad is not None))
        for source, grad in written:
            self.grads.append((source, None if grad is None else len(self.targets)))
            if grad is not None:
                self.targets.append(tracer.symbols.node(grad._value))


def _source(lifted: Lifted, cell: Cell, places: dict[int, int]) -> _Source:
    if lifted.owner is not None:
        owner = lifted.owner.cell()
        assert owner is not None
        cell = owner
    place = places.get(id(cell))
    return _Source(cell if place is None else None, place or 0, lifted.owner is not None)
