"""One traced function: its plan, where the inputs come from, and where the outputs go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from engine.compiler.blueprint import State
from engine.compiler.plan import Plan
from engine.core.node import Node
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.cpu.device import CpuDevice
from engine.devices.device import current_device
from engine.errors import BoundsError
from engine.tensor import Tensor
from engine.tensor.cell import Cell, Host, wrap
from engine.tracing.executable import Executable
from engine.tracing.pytree import Structure, flatten, unflatten
from engine.tracing.signature import Signature
from engine.tracing.tracer import Comparison, Lifted, Tracer

KEPT_SIZES = 32  # of one plan: what is ready for them; the oldest goes first


@dataclass(frozen=True, slots=True)
class Source:
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
class Traced:
    """One plan, where its inputs come from and where its outputs go.

    Inputs are the ``used`` numbers of the host, what lies in ``sources``, and what ``cells`` hold. ``states``
    are cells that were rebound, ``grads`` cells whose gradient was set: to the number of a target (the first
    ``results`` are what the function returned) or to None. ``presence`` says of which cells the gradient was
    read, and whether there was one; ``flags`` which cells from ``outside`` required gradients;
    ``comparisons`` how sizes compared where the function asked.
    """

    plan: Plan
    signature: Signature
    hosts: tuple[Host, ...]
    used: tuple[int, ...]
    sources: tuple[Source, ...]
    cells: tuple[Cell, ...]
    structure: Structure
    results: int
    states: tuple[Source, ...]
    grads: tuple[tuple[Source, int | None], ...]
    presence: tuple[tuple[Source, bool], ...]
    outside: tuple[Cell, ...]
    flags: list[bool]
    guards: tuple[tuple[Callable[[], Any], Any], ...]
    comparisons: tuple[Comparison, ...]
    executables: dict[tuple[int, ...], Executable] = field(default_factory=dict)

    def executable(self, sizes: tuple[int, ...]) -> Executable:
        """The plan at these sizes of the signature's symbols."""
        found = self.executables.get(sizes)
        if found is None:
            if len(self.executables) == KEPT_SIZES:
                self.executables.pop(next(iter(self.executables)))
            found = self.executables[sizes] = Executable(self.plan, self.signature.named(sizes))
        return found

    def holds(self, arguments: Sequence[Tensor]) -> bool:
        """Whether the function would do again what was traced."""
        return (
            all(read() == value for read, value in self.guards)
            and self._compares(arguments)
            and [cell._requires_grad for cell in self.outside] == self.flags
            and all((source.find(arguments)._grad is not None) == there for source, there in self.presence)
        )

    def _compares(self, arguments: Sequence[Tensor]) -> bool:
        """Whether the sizes compare as those did that it was traced for."""
        if not self.comparisons:
            return True
        sizes = self.signature.named(self.signature.sizes(arguments))
        return all(comparison.holds(sizes) for comparison in self.comparisons)

    def run(self, arguments: Sequence[Tensor]) -> Any:
        """One call. What it would have changed is as before when it raises BoundsError."""
        numbers = [value for host in self.hosts for value in host.produce()]
        values = [numbers[i] for i in self.used]
        values += [source.read(arguments) for source in self.sources]
        values += [cell._value for cell in self.cells]
        try:
            outputs, news = self.executable(self.signature.sizes(arguments)).run(values)
        except BoundsError:
            for host in reversed(self.hosts):
                host.undo()
            raise
        for source, value in zip(self.states, news, strict=True):
            cell = source.cell if source.cell is not None else arguments[source.argument]
            if cell._value is not value:  # else it was written in place
                cell._set(value, None, cell._requires_grad)
        for source, place in self.grads:
            source.find(arguments)._grad = None if place is None else wrap(outputs[place])
        return unflatten(self.structure, [wrap(value) for value in outputs[: self.results]])


def trace(  # noqa: PLR0917  a call, and what is known of it
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    tensors: Sequence[Tensor],
    own: Signature,
    remat: int | None,
) -> Traced:
    """Runs ``function`` on symbols, ``tensors`` being those among its arguments; the plan of what it did."""
    device = current_device()
    assert isinstance(device, CpuDevice)
    tracer = Tracer(device, own.named(own.sizes(tensors)))
    with tracer.active():
        for x, shape in {id(x): (x, shape) for x, shape in zip(tensors, own.shapes, strict=True)}.values():
            tracer.lift(x, shape=shape)
        structure, results = flatten(function(*args, **kwargs))
        tracer.meet(results)
        outcome = Outcome(tracer, tensors, [tracer.symbols.node(x._value) for x in results])
        del results
    for lifted in tracer.lifted:
        if lifted.symbol.node not in outcome.sources:  # made inside
            lifted.symbol.node.value = lifted.value
    reached = {*post_order([*outcome.targets, *[new for _, new in outcome.changed]])}
    reached |= {old for old, _ in outcome.changed}
    unread = [node for node in dict.fromkeys(tracer.symbols.checks) if node not in reached]
    reached |= {*post_order(unread)}
    used = tuple([i for i, node in enumerate(tracer.numbers) if node in reached])
    sources = {node: source for node, source in outcome.sources.items() if node in reached}
    cells = {
        node: source.cell
        for node, source in sources.items()
        if source.cell is not None and not source.of_grad
    }
    sources = {node: source for node, source in sources.items() if node not in cells}
    inputs = [*[tracer.numbers[i] for i in used], *sources, *cells]
    traced = Traced(
        plan=Plan(inputs, [*outcome.targets, *unread], device, states=outcome.changed, remat=remat),
        signature=own,
        hosts=tuple(tracer.hosts),
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
        comparisons=tuple(tracer.comparisons),
    )
    traced.executable(own.sizes(tensors))  # raises here for sizes that no input tells
    return traced


class Outcome:
    """What tracing left in the cells that it met: read before the tracer puts back what they held."""

    def __init__(self, tracer: Tracer, arguments: Sequence[Tensor], results: list[Node]) -> None:
        self.targets = results
        self.results = len(results)
        for cell in [lifted.cell() for lifted in tracer.lifted if lifted.grad_written]:
            if cell is not None and cell._grad is not None:
                tracer.meet((cell._grad,))
        places = {id(x): i for i, x in enumerate(arguments)}
        self.sources: dict[Node, Source] = {}
        self.changed: list[State] = []
        self.grads: list[tuple[Source, int | None]] = []
        self.presence: list[tuple[Source, bool]] = []
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


def _source(lifted: Lifted, cell: Cell, places: dict[int, int]) -> Source:
    if lifted.owner is not None:
        owner = lifted.owner.cell()
        assert owner is not None
        cell = owner
    place = places.get(id(cell))
    return Source(cell if place is None else None, place or 0, lifted.owner is not None)
