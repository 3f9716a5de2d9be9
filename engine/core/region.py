"""Regions: closed pieces of a graph that a loop runs once a turn, or a condition in one of its branches.

A region node (``loop``, ``cond``) has several results, and only ``item`` nodes read it, each giving one of
them. A region names nothing from outside: what its nodes need comes in through its parameters, so regions of
equal structure are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from engine.core.dim import Dim, Poly, Shape, evaluate
from engine.core.dtype import DType, bool_, int64
from engine.core.node import Node
from engine.core.opdef import Attrs, Inputs
from engine.core.shapes import check_choice, check_sizes, text
from engine.core.walk import post_order
from engine.errors import DTypeError, ShapeError

Kind: TypeAlias = tuple[Shape, DType]
"""Shape and dtype of a result."""

Save: TypeAlias = Literal["every", "first"]
"""Before which turns a loop's carries are kept for its gradient; the others are computed again from these."""

SAVES: tuple[Save, ...] = ("every", "first")

_Row: TypeAlias = tuple[str, tuple[int, ...], tuple[Any, ...], Shape, DType]


class Region:
    """``outs`` as a function of ``params``, which are input nodes; equal by structure.

    Raises ValueError where ``outs`` reach a leaf that is neither a parameter nor a constant.
    """

    def __init__(self, params: Sequence[Node], outs: Sequence[Node]) -> None:
        self.params = tuple(params)
        self.outs = tuple(outs)
        known = set(self.params)
        self.nodes = tuple(post_order(self.outs, stop=known.__contains__))
        for node in self.nodes:
            if node.op in ("input", "parameter"):
                raise ValueError(f"{node} in a region is none of its parameters; pass it in")
        number = {node: k for k, node in enumerate((*self.params, *self.nodes))}
        rows = [
            (node.op, tuple([number[x] for x in node.inputs]), node.attrs, node.shape, node.dtype)
            for node in self.nodes
        ]
        self._structure = (
            tuple([(node.shape, node.dtype) for node in self.params]),
            tuple(rows),
            tuple([number[out] for out in self.outs]),
            self._form(),
        )
        self._hash = hash(self._structure)

    def _form(self) -> tuple[int, ...]:
        """What of a kind of region its parameters and results do not tell."""
        return ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Region)
            and self._hash == other._hash
            and self._structure == other._structure
            and type(self) is type(other)
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def digest(self) -> str:
        """A hash of the structure that is the same in every process."""
        return hashlib.sha256(repr(self._structure).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.digest[:32]}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), *self._structure)

    @classmethod
    def _of(cls, params: tuple[Node, ...], outs: tuple[Node, ...], form: tuple[int, ...]) -> Region:
        return cls(params, outs)

    def named_params(self) -> dict[str, Node]:
        """The parameters by what to call them."""
        return {f"operand{k}": node for k, node in enumerate(self.params)}

    def inline(self, values: Sequence[Node]) -> list[Node]:
        """The results as nodes of the graph that ``values`` of the parameters belong to."""
        return replaced(self.outs, dict(zip(self.params, values, strict=True)))

    def at(self, sizes: Mapping[str, int]) -> Region:
        """The region with each symbol replaced by its size."""
        if self.is_static:
            return self
        params = [Node("input", (), (), at_sizes(node.shape, sizes), node.dtype) for node in self.params]
        new = dict(zip(self.params, params, strict=True))
        for node in self.nodes:
            inputs = tuple([new[x] for x in node.inputs])
            attrs, shape = at_sizes(node.attrs, sizes), at_sizes(node.shape, sizes)
            new[node] = Node(node.op, inputs, attrs, shape, node.dtype)
        return self._of(tuple(params), tuple([new[out] for out in self.outs]), self._form())

    @cached_property
    def is_static(self) -> bool:
        """Whether no size in it is a symbol."""
        own = [*[node.shape for node in self.params], *[(node.shape, node.attrs) for node in self.nodes]]
        return not _has_symbol(tuple(own))


class LoopBody(Region):
    """One turn of a loop.

    ``turn`` is its number, int64. ``next`` are the carries after it, each of its carry's shape and dtype;
    ``slices`` what it adds to the stacked results. The turn in which ``stop``, a bool, holds is the last one.
    Where ``stop`` has a shape, which must broadcast to every carry's, it holds lane by lane: a lane that has
    stopped keeps its carries and adds zeros, and the loop ends when all lanes have. Raises ShapeError and
    DTypeError where these rules are broken.
    """

    def __init__(  # noqa: PLR0917  the parts of a turn, in their order
        self,
        turn: Node,
        carries: Sequence[Node],
        constants: Sequence[Node],
        next: Sequence[Node],
        slices: Sequence[Node] = (),
        stop: Node | None = None,
    ) -> None:
        self.turn = turn
        self.carries = tuple(carries)
        self.constants = tuple(constants)
        self.next = tuple(next)
        self.slices = tuple(slices)
        self.stop = stop
        super().__init__((turn, *carries, *constants), (*next, *slices, *([] if stop is None else [stop])))
        self._check()

    def _form(self) -> tuple[int, ...]:
        return len(self.carries), len(self.slices), self.stop is not None

    @classmethod
    def _of(cls, params: tuple[Node, ...], outs: tuple[Node, ...], form: tuple[int, ...]) -> Region:
        carries, slices, stops = form
        return cls(
            params[0],
            params[1 : 1 + carries],
            params[1 + carries :],
            outs[:carries],
            outs[carries : carries + slices],
            outs[-1] if stops else None,
        )

    def named_params(self) -> dict[str, Node]:
        carries = {f"carry{k}": node for k, node in enumerate(self.carries)}
        return {"turn": self.turn, **carries, **{f"constant{k}": x for k, x in enumerate(self.constants)}}

    @property
    def lanes(self) -> Shape:
        """The shape of ``stop``; () without one."""
        return () if self.stop is None else self.stop.shape

    def _check(self) -> None:
        if len(self.next) != len(self.carries):
            raise ValueError(
                f"{len(self.carries)} carries and {len(self.next)} next ones; give each its next"
            )
        if (self.turn.shape, self.turn.dtype) != ((), int64):
            raise ValueError(f"the turn is {self.turn}; it must be a scalar of int64")
        for k, (old, new) in enumerate(zip(self.carries, self.next, strict=True)):
            check_carry(f"carry {k}", (old.shape, old.dtype), (new.shape, new.dtype))
        if self.stop is None:
            return
        if self.stop.dtype is not bool_:
            raise DTypeError(f"stop is {self.stop.dtype}; it must be bool")
        for k, out in enumerate((*self.next, *self.slices)):
            name = f"carry {k}" if k < len(self.next) else f"slice {k - len(self.next)}"
            check_lanes(name, self.lanes, out.shape)


def check_carry(name: str, old: Kind, new: Kind) -> None:
    """Raises ShapeError or DTypeError for a carry that a turn would change."""
    if old[0] != new[0]:
        raise ShapeError(
            f"{name} has shape {text(old[0])} before a turn and {text(new[0])} after it; "
            "a carry keeps its shape"
        )
    if old[1] is not new[1]:
        raise DTypeError(f"{name} is {old[1]} before a turn and {new[1]} after it; a carry keeps its dtype")


def check_lanes(name: str, lanes: Shape, shape: Shape) -> None:
    """Raises ShapeError where stop flags of shape ``lanes`` do not spread over ``shape``."""
    lead = len(shape) - len(lanes)
    if lead < 0 or any(own not in (1, size) for own, size in zip(lanes, shape[lead:], strict=True)):
        raise ShapeError(
            f"{name} has shape {text(shape)} and stop {text(lanes)}; stop must be a scalar or have the last "
            "axes of everything that a turn leaves (1 spreads)"
        )


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop node in its parts. ``count`` and ``limit`` are of turns; see ``build.loop``."""

    count: Node | None
    carries: tuple[Node, ...]
    constants: tuple[Node, ...]
    body: LoopBody
    limit: Dim | None
    save: Save


def loop_of(node: Node) -> Loop:
    """The parts of a loop node."""
    body: LoopBody = node.attrs[0]
    counted = len(node.inputs) - len(body.carries) - len(body.constants)
    first, last = counted, counted + len(body.carries)
    count = node.inputs[0] if counted else None
    return Loop(count, node.inputs[first:last], node.inputs[last:], body, node.attrs[1], node.attrs[2])


def results(node: Node) -> tuple[Kind, ...]:
    """The results of a region node: a loop's turns, carries and stacks; what a condition's branches give."""
    if node.op == "cond":
        return tuple([(out.shape, out.dtype) for out in node.attrs[0].outs])
    return loop_results(node.attrs[0], node.attrs[1])


def loop_results(body: LoopBody, limit: Dim | None) -> tuple[Kind, ...]:
    stacks: list[Kind] = []
    if body.slices:
        if limit is None:
            raise ShapeError("a stacked result needs a limit of turns, which gives it its length")
        stacks = [((limit, *x.shape), x.dtype) for x in body.slices]
    return ((body.lanes, int64), *[(x.shape, x.dtype) for x in body.carries], *stacks)


# ---- rules of the table


def loop_shape(inputs: Inputs, attrs: Attrs) -> Shape:
    """That of the number of turns; the operands are those that the body takes."""
    body, limit, save = attrs
    check_choice("save", save, SAVES)
    if limit is not None:
        check_sizes((limit,))
    counted = len(inputs) - len(body.params) + 1
    if counted not in (0, 1) or (limit is None and not counted):
        raise ValueError(
            f"{len(inputs)} operands for {len(body.carries)} carries and {len(body.constants)} constants; "
            "beside these there may be a count of turns, and must be without a limit"
        )
    if counted and (inputs[0].shape, inputs[0].dtype) != ((), int64):
        raise ValueError(f"the count of turns is {inputs[0]}; it must be a scalar of int64")
    _check_operands(inputs[counted:], body.params[1:])
    return loop_results(body, limit)[0][0]


def cond_shape(inputs: Inputs, attrs: Attrs) -> Shape:
    pred, *operands = inputs
    then, otherwise = attrs
    if (pred.shape, pred.dtype) != ((), bool_):
        raise ShapeError(f"the predicate is {pred}; it must be a scalar of bool")
    for region in (then, otherwise):
        _check_operands(operands, region.params)
    if len(then.outs) != len(otherwise.outs):
        raise ValueError(f"one branch has {len(then.outs)} results, the other {len(otherwise.outs)}")
    for k, (one, other) in enumerate(zip(then.outs, otherwise.outs, strict=True)):
        check_branches(f"result {k}", (one.shape, one.dtype), (other.shape, other.dtype))
    return ()


def check_branches(name: str, one: Kind, other: Kind) -> None:
    """Raises ShapeError or DTypeError for a result that the branches of a condition give differently."""
    if one[0] != other[0]:
        raise ShapeError(
            f"{name} has shape {text(one[0])} in one branch and {text(other[0])} in the other; "
            "both branches give equal shapes"
        )
    if one[1] is not other[1]:
        raise DTypeError(
            f"{name} is {one[1]} in one branch and {other[1]} in the other; both branches give equal dtypes"
        )


def item_shape(inputs: Inputs, attrs: Attrs) -> Shape:
    return _item(inputs[0], attrs[0])[0]


def item_dtype(inputs: Inputs, attrs: Attrs) -> DType:
    return _item(inputs[0], attrs[0])[1]


def _item(node: Node, index: int) -> Kind:
    if node.op not in ("loop", "cond"):
        raise ValueError(f"{node} has one result; only loops and conditions have items")
    found = results(node)
    if not 0 <= index < len(found):
        raise ValueError(f"item {index} of a {node.op} with {len(found)} results")
    return found[index]


def _check_operands(operands: Sequence[Node], params: Sequence[Node]) -> None:
    if len(operands) != len(params):
        raise ValueError(f"{len(operands)} operands for {len(params)} parameters")
    for k, (operand, param) in enumerate(zip(operands, params, strict=True)):
        if (operand.shape, operand.dtype) != (param.shape, param.dtype):
            raise ShapeError(f"operand {k} is {operand}, and the body takes {param}")


# ---- nodes within nodes


def replaced(outs: Sequence[Node], values: Mapping[Node, Node]) -> list[Node]:
    """``outs`` with each node of ``values`` replaced; what depends on none of them stays as it is."""
    new = dict(values)
    for node in post_order(outs, stop=new.__contains__):
        inputs = tuple([new[x] for x in node.inputs])
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        new[node] = node if same else Node(node.op, inputs, node.attrs, node.shape, node.dtype)
    return [new[out] for out in outs]


def primitives(outs: Sequence[Node]) -> Iterator[str]:
    """The primitives that ``outs`` reach, those within regions too, each as often as it is there."""
    for node in post_order(outs):
        yield node.op
        for attr in node.attrs:
            if isinstance(attr, Region):
                yield from primitives(attr.outs)


def params_like(nodes: Iterable[Node]) -> list[Node]:
    """Parameters of a region that take the values of ``nodes``."""
    return [Node("input", (), (), node.shape, node.dtype) for node in nodes]


def at_sizes(item: Any, sizes: Mapping[str, int]) -> Any:
    """Attributes or a shape with each symbol replaced by its size."""
    if isinstance(item, tuple):
        return tuple([at_sizes(part, sizes) for part in item])
    if isinstance(item, Region):
        return item.at(sizes)
    return evaluate(item, sizes) if isinstance(item, Poly) else item


def _has_symbol(item: Any) -> bool:
    if isinstance(item, tuple):
        return any(map(_has_symbol, item))
    if isinstance(item, Region):
        return not item.is_static
    return isinstance(item, Poly)


def _unpickled(
    cls: type[Region],
    kinds: tuple[Kind, ...],
    rows: tuple[_Row, ...],
    outs: tuple[int, ...],
    form: tuple[int, ...],
) -> Region:
    params = tuple([Node("input", (), (), shape, dtype) for shape, dtype in kinds])
    nodes = list(params)
    for op, inputs, attrs, shape, dtype in rows:
        nodes.append(Node(op, tuple([nodes[k] for k in inputs]), attrs, shape, dtype))
    return cls._of(params, tuple([nodes[k] for k in outs]), form)
