"""Steps of a plan: what runs as one, on which level, from which buffers to which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from engine.compiler.access import Access
from engine.compiler.lower import Lowered
from engine.core.dim import Dim
from engine.core.node import Node

if TYPE_CHECKING:
    from engine.compiler.blueprint import Blueprint


@dataclass(frozen=True, slots=True)
class FusedStep:
    """A printed kernel. ``nodes`` are those it computes, ``takeovers`` pairs (read, written) of which the
    written one may lie where the read one does.
    """

    level: int
    fixed: bool
    nodes: tuple[Node, ...]
    lowered: Lowered
    name: str
    takeovers: tuple[tuple[Node, Node], ...]

    @property
    def reads(self) -> list[Node]:
        written = {*self.lowered.outputs, *self.lowered.partials}
        sources = [layout.source for layout in self.lowered.layouts]
        return [source for source in sources if source is not None and source not in written]

    @property
    def writes(self) -> tuple[Node, ...]:
        return self.lowered.outputs + self.lowered.partials


@dataclass(frozen=True, slots=True)
class SingleStep:
    """A node on the kernels of the per-node executor."""

    level: int
    fixed: bool
    node: Node
    accesses: tuple[Access, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.node,)

    @property
    def reads(self) -> list[Node]:
        return [access.source for access in self.accesses]

    @property
    def writes(self) -> tuple[Node, ...]:
        return (self.node,)


@dataclass(frozen=True, slots=True)
class DotStep:
    """A product written to ``into`` and the kernel ``lowered``, which reads it there, as its epilogue.

    ``kernel`` is the kernel's name, ``name`` that of both together.
    """

    level: int
    fixed: bool
    nodes: tuple[Node, ...]
    dot: Node
    accesses: tuple[Access, Access]
    into: Node
    lowered: Lowered
    kernel: str
    name: str
    takeovers: tuple[tuple[Node, Node], ...]

    @property
    def whole_rows(self) -> bool:
        """Whether the epilogue reduces along rows."""
        return self.lowered.kernel.kind == "rows"

    @property
    def reads(self) -> list[Node]:
        written = set(self.writes)
        sources = [layout.source for layout in self.lowered.layouts]
        operands = [access.source for access in self.accesses]
        return operands + [source for source in sources if source is not None and source not in written]

    @property
    def writes(self) -> tuple[Node, ...]:
        return tuple(dict.fromkeys((self.into, *self.lowered.outputs)))


Part: TypeAlias = FusedStep | SingleStep


@dataclass(frozen=True, slots=True)
class ChainStep:
    """``parts`` in their order, for one of ``units`` after the other; ``name`` is their common function.

    ``inner`` is what only parts read.
    """

    level: int
    fixed: bool
    parts: tuple[Part, ...]
    inner: tuple[Node, ...]
    units: Dim
    name: str

    takeovers: tuple[tuple[Node, Node], ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple([node for part in self.parts for node in part.nodes])

    @property
    def writes(self) -> tuple[Node, ...]:
        return tuple([node for part in self.parts for node in part.writes if node not in self.inner])

    @property
    def reads(self) -> list[Node]:
        written = {*self.writes, *self.inner}
        return [node for part in self.parts for node in part.reads if node not in written]


@dataclass(frozen=True, slots=True)
class Body:
    """A region as a plan of its own, whose results are its blueprint's states."""

    inputs: tuple[Node, ...]
    blueprint: Blueprint


@dataclass(frozen=True, slots=True)
class Carry:
    """A loop's carry: its parameter, what it begins as (None: zeros), and, if it is read, its last value."""

    param: Node
    initial: Access | None
    result: Node | None


@dataclass(frozen=True, slots=True)
class LoopStep:
    """A loop that runs its body's plan once a turn.

    ``count`` and ``limit`` are of turns, ``turns`` and ``stacks`` the items that are read. The body's inputs
    are the turn, carries and constants; its results the next carries, slices, and, if it ``stops``, the flag.
    """

    level: int
    fixed: bool
    count: Access | None
    carries: tuple[Carry, ...]
    constants: tuple[Access, ...]
    stacks: tuple[Node, ...]
    turns: Node | None
    limit: Dim | None
    stops: bool
    body: Body

    name = "loop"

    @property
    def nodes(self) -> tuple[Node, ...]:
        results = [carry.result for carry in self.carries]
        return tuple([node for node in (self.turns, *results, *self.stacks) if node is not None])

    @property
    def writes(self) -> tuple[Node, ...]:
        return self.nodes

    @property
    def accesses(self) -> tuple[Access, ...]:
        first = [self.count, *[carry.initial for carry in self.carries]]
        return (*[access for access in first if access is not None], *self.constants)

    @property
    def reads(self) -> list[Node]:
        return [access.source for access in self.accesses]

    @property
    def bodies(self) -> tuple[Body, ...]:
        return (self.body,)

    @property
    def labels(self) -> list[str]:
        """What to call the inputs of the body."""
        carries = [f"carry {k}" for k in range(len(self.carries))]
        return ["turn", *carries, *[f"constant {k}" for k in range(len(self.constants))]]


@dataclass(frozen=True, slots=True)
class CondStep:
    """A condition that runs the plan of one of its branches, whose inputs are the operands."""

    level: int
    fixed: bool
    pred: Access
    operands: tuple[Access, ...]
    results: tuple[Node, ...]
    then: Body
    otherwise: Body

    name = "cond"

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.results

    @property
    def writes(self) -> tuple[Node, ...]:
        return self.results

    @property
    def accesses(self) -> tuple[Access, ...]:
        return (self.pred, *self.operands)

    @property
    def reads(self) -> list[Node]:
        return [access.source for access in self.accesses]

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.then, self.otherwise

    @property
    def labels(self) -> list[str]:
        """What to call the inputs of a branch."""
        return [f"operand {k}" for k in range(len(self.operands))]


NestedStep: TypeAlias = LoopStep | CondStep
Step: TypeAlias = FusedStep | SingleStep | DotStep | ChainStep | LoopStep | CondStep
