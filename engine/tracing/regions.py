"""Loops and conditions over Tensors: their bodies are run once, on symbols, wherever they are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from engine.autodiff.invariant import Turns, without_invariants
from engine.autodiff.loops import saving
from engine.autodiff.segments import segmented
from engine.core import build as b
from engine.core.dim import Dim, Poly
from engine.core.dtype import bool_, int64
from engine.core.node import Node
from engine.core.region import Region, Save, check_branches, check_carry, check_lanes, results
from engine.core.shapes import text
from engine.devices.device import current_device
from engine.devices.evaluate import evaluate
from engine.errors import DTypeError, ShapeError, TracingError
from engine.tensor import Tensor, where
from engine.tensor.cell import is_recording, meet, wrap
from engine.tensor.promotion import as_tensor, cast
from engine.tracing.body import BodyTrace
from engine.tracing.pytree import Structure, flatten, names, unflatten
from engine.tracing.symbols import user_line


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
    _meet([*([] if count is None else [count]), *initial])
    turns, captured, stacking = _recorded(body, structure, initial)
    left = without_invariants(turns, limit)
    needs = is_recording() and any(x.requires_grad for x in [*initial, *captured])
    counts = None if count is None else count.node
    if save == "sqrt":
        nodes = segmented(left, _known(limit), counts)
    else:
        node = b.loop(left.body(), left.initial, left.held, limit, counts, save or "every")
        nodes = _items(saving(node) if needs else node, len(results(node)))
    last = 1 + len(left.carries)
    ends = left.ends(nodes[1:last], turns)
    taken, *values = _evaluated([nodes[0], *ends, *nodes[last:]], needs)
    return Looped(unflatten(structure, values[: len(ends)]), unflatten(stacking, values[len(ends) :]), taken)


def _recorded(
    body: Body, structure: Structure, initial: Sequence[Tensor]
) -> tuple[Turns, list[Tensor], Structure]:
    """The loop of ``body``, the Tensors from outside that it reads, and the structure of what it stacks."""
    called = names(structure, "carries")
    with BodyTrace(loops=True) as trace:
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
        next, own = trace.nodes(following), trace.nodes(slices)
        turns = Turns(
            turn=trace.node(trace.turn),
            carries=tuple([trace.node(x) for x in params]),
            constants=(),
            next=tuple(next),
            slices=tuple(own),
            stop=None if stop is None else trace.nodes([stop])[0],
            initial=(),
            held=(),
        )
    held = tuple([x.node for x in trace.captured])
    begun = tuple([x.node for x in initial])
    return replace(turns, constants=tuple(trace.params), initial=begun, held=held), trace.captured, stacking


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
        with BodyTrace() as trace:
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
    _meet([pred])
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


def _meet(cells: Sequence[Tensor]) -> None:
    """Tells the trace that is around, if there is one, that these cells are read."""
    for cell in cells:
        meet(cell)
