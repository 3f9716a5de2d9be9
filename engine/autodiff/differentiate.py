"""Reverse-mode differentiation of a graph into a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from engine.autodiff.merge import merge
from engine.core import build as b
from engine.core.node import Node
from engine.core.opdef import OPS, GradientRule, RegionRule
from engine.core.shapes import text
from engine.errors import DTypeError, GradientError, ShapeError


def differentiate(
    outputs: Sequence[Node], wrt: Sequence[Node], seeds: Sequence[Node] | None = None
) -> list[Node]:
    """The cotangents of ``wrt``: gradients of Σ seed · output, by default with seeds of ones.

    Each result has the shape and dtype of its ``wrt`` node, and is zero where no output depends on it.
    Results are nodes, so they can be differentiated again. Equal nodes are merged first and cotangents are
    added in the reverse of depth-first post-order, so the bits depend on the graph, not on the order in
    which it was recorded. Raises GradientError for a ``wrt`` or an output that is not of floats, ShapeError
    and DTypeError for a seed that does not fit its output.
    """
    for role, nodes in (("output", outputs), ("wrt", wrt)):
        for node in nodes:
            if not node.dtype.is_float:
                raise GradientError(f"{role} is {node.dtype}: only floats have gradients, cast it to float32")
    seeds = [b.ones_like(output) for output in outputs] if seeds is None else seeds
    targets = set(wrt)
    order, leaders = merge(outputs, targets)
    active = _active(order, leaders, targets)
    cotangents: dict[Node, Node] = {}
    of_items: dict[Node, dict[int, Node]] = {}  # of each loop and condition, by the number of the result
    for output, seed in zip(outputs, seeds, strict=True):
        _check_seed(output, seed)
        _accumulate(cotangents, leaders[output], seed)
    for node in reversed(order):
        cotangent = cotangents.get(node) if node in targets else cotangents.pop(node, None)
        of_results = of_items.pop(node, None)
        if node not in active or (cotangent is None and of_results is None):
            continue
        if node.op == "item":
            of_items.setdefault(leaders[node.inputs[0]], {})[node.attrs[0]] = cast(Node, cotangent)
            continue
        if of_results is None:
            parts = _apply_rule(node, cast(Node, cotangent))
        else:
            wanted = [leaders[x] in active or leaders[x] in targets for x in node.inputs]
            parts = cast("RegionRule", OPS[node.op].gradient)(node, of_results, wanted)
        for operand, part in zip(node.inputs, parts, strict=True):
            leader = leaders[operand]
            if part is not None and (leader in active or leader in targets):
                _accumulate(cotangents, leader, part)
    return [cotangents.get(node) or b.zeros_like(node) for node in wrt]


def _active(order: list[Node], leaders: dict[Node, Node], targets: set[Node]) -> set[Node]:
    """The nodes that a gradient flows through: those with an input that depends on a target."""
    depends = set(targets)
    active = set()
    for node in order:
        kind = OPS[node.op].kind
        if kind != "region" and (
            not node.dtype.is_float or (OPS[node.op].gradient is None and kind != "item")
        ):
            continue
        for operand in node.inputs:
            if leaders[operand] in depends:
                active.add(node)
                depends.add(node)
                break
    return active


def _check_seed(output: Node, seed: Node) -> None:
    if seed.shape != output.shape:
        raise ShapeError(
            f"a seed has shape {text(seed.shape)}, its output {text(output.shape)}; make them equal"
        )
    if seed.dtype is not output.dtype:
        raise DTypeError(f"a seed is {seed.dtype}, its output {output.dtype}; they must be equal")


def _accumulate(cotangents: dict[Node, Node], node: Node, part: Node) -> None:
    total = cotangents.get(node)
    if total is None:
        cotangents[node] = part
    elif part.op == "neg":  # a + -b is a - b, bit for bit, in one pass less
        cotangents[node] = b.sub(total, part.inputs[0])
    else:
        cotangents[node] = b.add(total, part)


# ---- masks


def _apply_rule(node: Node, cotangent: Node) -> tuple[Node | None, ...]:
    """The rule of ``node``, with a mask of the cotangent moved outside: rule(mask ? g : 0) = mask ? rule(g)
    : 0.

    That is the same number by linearity, except that where the mask excludes an element, an infinite or
    undefined derivative there no longer meets the zero: where(x <= 0, exp(x), 1 + x) has gradient 1 at x =
    1000, not NaN.
    """
    row = OPS[node.op]
    rule = cast("GradientRule", row.gradient)
    if row.kind != "elementwise" or cotangent.op != "select":
        return rule(node, cotangent)
    mask, inner = _unmask(cotangent)
    if mask is None:
        return rule(node, cotangent)
    parts = rule(node, inner)
    return tuple([_remask(mask, part, inner, cotangent) for part in parts])


def _unmask(cotangent: Node) -> tuple[Node | None, Node]:
    """Takes select(p, g, 0) and select(p, 0, g), also one inside the other, apart into mask and g."""
    mask: Node | None = None
    while cotangent.op == "select":
        pred, kept, other = cotangent.inputs
        if is_zero(kept):
            pred, kept, other = b.not_(pred), other, kept
        if not is_zero(other):
            break
        mask = pred if mask is None else b.and_(mask, pred)
        cotangent = kept
    return mask, cotangent


def _remask(mask: Node, part: Node | None, inner: Node, cotangent: Node) -> Node | None:
    if part is None:
        return None
    if part is inner:
        return cotangent
    return b.select(mask, part, b.zeros_like(part))


def is_zero(node: Node) -> bool:
    """Whether ``node`` is +0 everywhere by construction."""
    while node.op in ("broadcast", "reshape"):
        node = node.inputs[0]
    return node.op == "constant" and not any(node.attrs[0])
