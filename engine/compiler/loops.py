"""Loops that a kernel runs for each step of its space: their carries stay in registers.

Such a loop's body is elementwise over the kernel's space, beside scalars that all elements share, rows of
arrays that a turn picks, random words, and loops like it that stack nothing. Others are plans within the plan
(``nested.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.autodiff.merge import merge
from engine.compiler.access import Access, is_movement, moved, whole
from engine.compiler.anywhere import is_anywhere, scalars
from engine.compiler.cluster import Dims, is_aligned
from engine.compiler.extent import contiguous, solid
from engine.compiler.simplify import simplify
from engine.core.dim import Dim, Shape
from engine.core.dtype import bfloat16, bool_
from engine.core.node import Node
from engine.core.opdef import OPS
from engine.core.region import loop_of

MOST_NODES = 400  # in a body: its build time is linear in them, and registers spill
NOMINAL_TURNS = 64  # of a loop whose turns are not known, when its cost is weighed


class UnfitError(Exception):
    """Why a loop is none that a kernel can run."""


@dataclass(frozen=True, slots=True)
class Local:
    """A loop over a space of ``dims``. ``reads`` tells how each node of the body, in ``order``, reads its
    operands: other nodes of the body, or what is outside, which ``outside`` lists.

    ``items`` are the results that are wanted by their number, ``inner`` the loops in its body. ``lanes`` is
    the size of the smallest elements, ``cost`` that of all turns in additions an element.
    """

    node: Node
    dims: Dims
    turn: Node
    carries: tuple[Node, ...]
    init: tuple[Access, ...]
    count: Access | None
    limit: Dim | None
    order: tuple[Node, ...]
    reads: dict[Node, list[Access]]
    next: tuple[Access, ...]
    slices: dict[int, Access]
    stop: Access | None
    items: dict[int, Node]
    inner: dict[Node, Local]
    outside: list[Access]
    lanes: int
    cost: int

    @property
    def operations(self) -> int:
        """Those of its body and of the loops in it."""
        return len(self.order) + sum(local.operations for local in self.inner.values())

    def reading(self, instead: Callable[[Access], Access]) -> Local:
        """The same loop, where what is outside is read as ``instead`` says."""
        return replace(
            self,
            init=tuple([instead(access) for access in self.init]),
            count=None if self.count is None else instead(self.count),
            reads={node: [instead(access) for access in own] for node, own in self.reads.items()},
            next=tuple([instead(access) for access in self.next]),
            slices={number: instead(access) for number, access in self.slices.items()},
            stop=None if self.stop is None else instead(self.stop),
            inner={node: local.reading(instead) for node, local in self.inner.items()},
            outside=[instead(access) for access in self.outside],
        )

    def is_stack(self, item: Node) -> bool:
        return bool(item.attrs[0] > len(self.carries))

    def is_scalar(self, node: Node) -> bool:
        """Whether a node of the body is the same for all elements."""
        return not solid(node.shape)


def local_loop(node: Node, items: Sequence[Node], read: Callable[[Node], Access]) -> Local | str:
    """The loop with its ``items`` as one that a kernel runs, or why it is none. ``read`` tells how what is
    outside is read.
    """
    try:
        return _Body(node, items, read).local()
    except UnfitError as why:
        return str(why)


class _Body:
    """``around`` is the body that the loop is part of."""

    def __init__(
        self, node: Node, items: Sequence[Node], read: Callable[[Node], Access], around: _Body | None = None
    ) -> None:
        self.node = node
        self.around = around
        self.loop = loop_of(node)
        self.items = {item.attrs[0]: item for item in items}
        body = self.loop.body
        first = 1 + len(body.carries)
        self.stacked = [k for k in range(len(body.slices)) if first + k in self.items]
        outs = [*body.next, *[body.slices[k] for k in self.stacked], *([body.stop] if body.stop else [])]
        self.outs = simplify(outs)
        self.order, self.leaders = merge(self.outs)
        self.outer = {own: read(x) for own, x in zip(body.constants, self.loop.constants, strict=True)}
        self.init = [read(x) for x in self.loop.carries]
        self.count = None if self.loop.count is None else read(self.loop.count)
        self.dims: Dims = self._dims() if around is None else around.dims
        self.params = {body.turn, *body.carries}
        self.inside = {
            node for node in self.order if node not in self.outer and node.op != "constant"
        } | self.params
        self.registers: set[Node] = self.inside if around is None else self.inside | around.registers
        self.access: dict[Node, Access] = {}
        self.outside: dict[Access, None] = {}
        self.inner: dict[Node, Local] = {}

    def _dims(self) -> Dims:
        """The space: what elements the carries have, or else the slices."""
        body = self.loop.body
        shapes = [solid(node.shape) for node in (*body.carries, *body.slices)]
        return next((shape for shape in shapes if shape), ())

    def local(self) -> Local:
        body = self.loop.body
        self._check_items()
        reads: dict[Node, list[Access]] = {}
        order: list[Node] = []
        for node in self.order:
            self.access[node] = self._access(node)
            if node in self.params or node not in self.inside or self.access[node].source is not node:
                continue
            if node.op == "item":
                continue
            reads[node] = self._loop(node) if node.op == "loop" else self._operands(node)
            order.append(node)
            if len(order) + sum(local.operations for local in self.inner.values()) > MOST_NODES:
                raise UnfitError(f"its body has more than {MOST_NODES} operations")
        for param in self.params:
            self.access.setdefault(param, whole(param))
        carried = len(body.carries)
        outs = [self._read(out, self.access[self.leaders[out]]) for out in self.outs]
        slices = dict(zip(self.stacked, outs[carried:], strict=False))
        init = [self._from_outside(x, own) for x, own in zip(self.init, body.carries, strict=True)]
        return Local(
            node=self.node,
            dims=self.dims,
            turn=body.turn,
            carries=body.carries,
            init=tuple(init),
            count=None if self.count is None else self._from_outside(self.count, body.turn),
            limit=self.loop.limit,
            order=tuple(order),
            reads=reads,
            next=tuple(outs[:carried]),
            slices=slices,
            stop=None if body.stop is None else outs[-1],
            items=self.items,
            inner=self.inner,
            outside=list(self.outside),
            lanes=self._lanes(order),
            cost=self._cost(order),
        )

    # ---- checks

    def _check_items(self) -> None:
        body = self.loop.body
        if not self.loop.carries and not self.loop.constants:
            raise UnfitError("it reads nothing")
        if body.lanes and solid(body.lanes) != self.dims:
            raise UnfitError("several elements of a carry stop together")
        if self.around is not None:
            if self.stacked:
                raise UnfitError("a loop in it stacks slices")
            return
        for number, item in self.items.items():
            shape = item.shape[1:] if number > len(body.carries) else item.shape
            if solid(shape) != self.dims or 0 in item.shape:
                raise UnfitError(f"its result {number} is the same for all elements of the others")

    def _lanes(self, order: Sequence[Node]) -> int:
        nodes = [*order, *self.params, *[x.source for x in self.outside]]
        if any(node.dtype is bfloat16 for node in nodes):
            raise UnfitError("its elements are bfloat16")
        sizes = {node.dtype.size for node in nodes if node.dtype is not bool_}
        return min([*sizes, *[local.lanes for local in self.inner.values()]])

    def _cost(self, order: Sequence[Node]) -> int:
        turns = self.loop.limit if isinstance(self.loop.limit, int) else NOMINAL_TURNS
        inner = sum(local.cost for local in self.inner.values())
        return turns * (inner + sum([1 + OPS[node.op].cost for node in order]))

    # ---- nodes

    def _access(self, node: Node) -> Access:
        """How a node of the body is read: where it comes from outside, and movements, along strides."""
        if node in self.outer:
            return self.outer[node]
        if node in self.params or not is_movement(node):
            return whole(node)
        access = moved(node, self.access[self.leaders[node.inputs[0]]])
        if access.source is node:
            raise UnfitError(f"its {node.op} needs a copy")
        return access

    def _loop(self, node: Node) -> list[Access]:
        """A loop in the body, and what it reads: values of the body, or what is outside of that too."""
        items = [own for own in self.order if own.op == "item" and self.leaders[own.inputs[0]] is node]
        local = _Body(node, items, lambda x: self.access[self.leaders[x]], self).local()
        self.inner[node] = local
        for access in local.outside:
            if access.source not in self.inside:
                self.outside[access] = None
            elif not access.rows and self._read(node, access) != access:
                raise UnfitError("its elements are read in another order")
        return local.outside

    def _operands(self, node: Node) -> list[Access]:
        """Of a node that is computed, each as its space needs it."""
        kind, own = OPS[node.op].kind, [self.access[self.leaders[x]] for x in node.inputs]
        if is_anywhere(node):
            return [self._read(node, access) for access in scalars(own)]
        if solid(node.shape) not in ((), self.dims):
            raise UnfitError(f"its {node.op} has a shape of its own")
        if node.dtype is bfloat16 or any(x.dtype is bfloat16 for x in node.inputs):
            raise UnfitError("its elements are bfloat16")
        if kind == "elementwise":
            return [self._read(node, access) for access in own]
        if node.op == "gather" and node.attrs == ("clamp",):
            return self._gathered(node, own)
        raise UnfitError(f"it has a {node.op}")

    def _gathered(self, node: Node, own: Sequence[Access]) -> list[Access]:
        """A row that all elements pick alike: the row number 0, with how many there are and how far apart."""
        x, *indices = own
        apart = len(indices) != 1 or bool(solid(node.inputs[1].shape))
        if (
            apart
            or x.source in self.registers
            or is_anywhere(x.source)
            or x.source.op == "constant"
            or x.windows
        ):
            raise UnfitError("it gathers more than a row that all elements share")
        row = Access(x.source, x.shape[1:], x.offset, x.strides[1:], (), (x.shape[0], x.strides[0]))
        return [self._from_outside(row, node), self._read(node, indices[0])]

    def _read(self, reader: Node, access: Access) -> Access:
        source = access.source
        if source not in self.inside:
            return self._from_outside(access, reader)
        if access.windows:
            raise UnfitError("it has a border")
        scalar = not solid(access.shape)
        if is_anywhere(source) or (scalar and not solid(source.shape)):
            return self._over(access)
        if not solid(source.shape):
            return self._over(replace(access, strides=(0,) * len(access.shape)))
        found = self._over(access)
        if scalar or not is_aligned(found, self.dims, len(self.dims)):
            raise UnfitError("its elements are read in another order")
        return found

    def _from_outside(self, access: Access, reader: Node) -> Access:
        if access.windows:
            raise UnfitError("it has a border")
        found = self._over(access)
        self.outside[found] = None
        return found

    def _over(self, access: Access) -> Access:
        """The same read, over the space."""
        if not solid(access.shape):
            return replace(access, shape=self.dims, strides=(0,) * len(self.dims))
        strides = access.over(self.dims)
        if strides is None:
            raise UnfitError("its elements are read in another order")
        return replace(access, shape=self.dims, strides=strides)


def stack_access(item: Node, dims: Shape) -> Access:
    """How a loop over ``dims`` writes, or reads again, the rows of one of its stacks."""
    steps = contiguous((item.shape[0], *dims))
    return Access(item, tuple(dims), 0, steps[1:], (), (item.shape[0], steps[0]))
