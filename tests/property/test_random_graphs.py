"""Random graphs: values, gradients and second gradients against torch, and one device against the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as draw
from hypothesis import settings
from hypothesis import strategies as st
from primitives import REFERENCE, given, to_numpy, torch_numbers

from engine.autodiff.differentiate import differentiate
from engine.core import build as b
from engine.core.dtype import float32, float64
from engine.core.node import Node
from engine.core.opdef import make
from engine.devices.device import default_device
from engine.devices.evaluate import evaluate

EXACT = ("neg", "abs", "add", "sub", "mul", "max", "min")
SMOOTH = ("tanh", "sin", "cos", "erf")


class Graph:
    """A pool of nodes of rank 2 that grows one primitive at a time; sizes stay small and values moderate."""

    def __init__(self, random: np.random.Generator, dtype, operations) -> None:
        self.random, self.operations = random, operations
        rows, columns = (int(n) for n in random.integers(1, 5, 2))
        self.leaves = [
            given(random.uniform(-1.5, 1.5, (rows, columns)), dtype),
            given(random.uniform(-1.5, 1.5, (1, columns)), dtype),
            given(random.uniform(-1.5, 1.5, (columns, rows)), dtype),
        ]
        self.pool: list[Node] = list(self.leaves)

    def grow(self, steps: int) -> Node:
        for _ in range(steps):
            self.pool.append(self.random.choice(self.operations)(self, self.pick()))
        return self.pool[-1]

    def pick(self) -> Node:
        return self.pool[int(self.random.integers(len(self.pool)))]

    def like(self, x: Node) -> Node:
        """Some node of x's shape, by broadcasting, transposing or slicing and padding another."""
        y = self.pick()
        if y.shape != x.shape and y.shape == x.shape[::-1]:
            return b.swap_last(y)
        sizes = tuple(min(m, n) for m, n in zip(x.shape, y.shape, strict=True))
        y = b.slice(y, (0, 0), sizes, (1, 1))
        if all(size in (1, want) for size, want in zip(sizes, x.shape, strict=True)):
            return b.broadcast(y, x.shape)
        high = tuple(want - size for size, want in zip(sizes, x.shape, strict=True))
        return b.pad(y, b.constant(0.25, x.dtype), (0, 0), high)

    def index(self, size: int, count: int) -> Node:
        return given(self.random.integers(-size, 2 * size, count))


def exact_unary(graph: Graph, x: Node) -> Node:
    return make(str(graph.random.choice(["neg", "abs"])), (x,))


def smooth_unary(graph: Graph, x: Node) -> Node:
    return make(str(graph.random.choice(SMOOTH)), (x,))


def binary(graph: Graph, x: Node) -> Node:
    return make(str(graph.random.choice(["add", "sub", "mul", "max", "min"])), (x, graph.like(x)))


def quotient(graph: Graph, x: Node) -> Node:
    y = graph.like(x)
    return b.div(x, b.sqrt(b.add(b.ones_like(y), b.mul(y, y))))


def choice(graph: Graph, x: Node) -> Node:
    return b.select(b.lt(x, graph.like(x)), x, graph.like(x))


def movement(graph: Graph, x: Node) -> Node:
    rows, columns = x.shape
    kind = graph.random.integers(4)
    if kind == 0:
        return b.swap_last(x)
    if kind == 1:
        return b.flip(x, int(graph.random.integers(2)))
    if kind == 2:
        return b.slice(x, (0, columns - 1), ((rows + 1) // 2, (columns + 1) // 2), (2, -2))
    return b.reshape(x, (columns, rows))


def reduction(graph: Graph, x: Node) -> Node:
    kind = str(graph.random.choice(["sum", "max", "min", "prod"]))
    axis = int(graph.random.integers(2))
    left = x.shape[1 - axis]
    return b.broadcast(b.reshape(b.reduce(x, kind, (axis,)), (1, left)), (2, left))


def running(graph: Graph, x: Node) -> Node:
    kind = str(graph.random.choice(["sum", "prod", "max"]))
    return b.scan(x, kind, int(graph.random.integers(2)), bool(graph.random.integers(2)))


def product(graph: Graph, x: Node) -> Node:
    return b.dot(x, b.swap_last(graph.like(x)))


def indexed(graph: Graph, x: Node) -> Node:
    mode = str(graph.random.choice(["clamp", "wrap", "zero", "mirror"]))
    picked = b.gather(x, (graph.index(x.shape[0], 3),), mode)
    kind = str(graph.random.choice(["set", "add", "max"]))
    return b.scatter(x, (graph.index(x.shape[0], 3),), picked, kind, mode)


def joined(graph: Graph, x: Node) -> Node:
    return b.concat((x, graph.like(x)), int(graph.random.integers(2)))


EXACT_OPERATIONS = [
    exact_unary,
    binary,
    quotient,
    choice,
    movement,
    reduction,
    running,
    product,
    indexed,
    joined,
]
OPERATIONS = [smooth_unary, *EXACT_OPERATIONS]


def small(graph: Graph, steps: int) -> Node:
    """The last node, kept from growing beyond a few hundred elements."""
    for _ in range(steps):
        node = graph.grow(1)
        if np.prod(node.shape) > 64:
            graph.pool.pop()
    return graph.pool[-1]


# ---- torch


def torch_value(torch, node: Node, values: dict):
    """The node's primitive in torch's own operations."""
    x = [values[operand] for operand in node.inputs]
    attrs = node.attrs
    table = {
        "neg": torch.neg,
        "abs": torch.abs,
        "tanh": torch.tanh,
        "sin": torch.sin,
        "cos": torch.cos,
        "erf": torch.erf,
        "sqrt": torch.sqrt,
        "add": torch.add,
        "sub": torch.sub,
        "mul": torch.mul,
        "div": torch.div,
        "max": torch.maximum,
        "min": torch.minimum,
        "lt": torch.lt,
        "select": torch.where,
        "dot": torch.matmul,
        "reshape": lambda v: v.reshape(attrs[0]),
        "transpose": lambda v: v.permute(attrs[0]),
        "broadcast": lambda v: v.expand(attrs[0]),
        "concat": lambda *v: torch.cat(v, attrs[0]),
        "pad": lambda v, fill: torch.nn.functional.pad(v, pad_widths(attrs), value=fill.item()),
        "slice": lambda v: torch_slice(torch, v, attrs),
        "reduce": lambda v: torch_reduce(torch, v, *attrs),
        "scan": lambda v: torch_scan(torch, v, *attrs),
        "gather": lambda v, i: torch_gather(torch, v, i, attrs[0]),
        "scatter": lambda *x: torch_scatter(torch, x, *attrs),
    }
    return table[node.op](*x)


def pad_widths(attrs):
    return [width for low, high in reversed(list(zip(*attrs, strict=True))) for width in (low, high)]


def torch_slice(torch, v, attrs):
    for axis, (start, size, step) in enumerate(zip(*attrs, strict=True)):
        v = v.index_select(axis, torch.tensor([start + i * step for i in range(size)], dtype=torch.int64))
    return v


def torch_reduce(torch, v, kind, axes):
    return {"sum": torch.sum, "max": torch.amax, "min": torch.amin, "prod": torch.prod}[kind](v, axes[0])


def torch_scan(torch, v, kind, axis, reverse):
    v = v.flip(axis) if reverse else v
    scan = {"sum": torch.cumsum, "prod": torch.cumprod, "max": lambda v, axis: torch.cummax(v, axis)[0]}
    v = scan[kind](v, axis)
    return v.flip(axis) if reverse else v


def in_range(i, size, mode):
    """Indices in range, and which of them were outside in mode zero."""
    outside = (i < 0) | (i >= size)
    if mode == "wrap":
        return i % size, outside & False
    if mode == "mirror":
        i = i % (2 * size)
        return i.where(i < size, 2 * size - 1 - i), outside & False
    return i.clamp(0, size - 1), outside & (mode == "zero")


def torch_gather(torch, v, i, mode):
    place, outside = in_range(i, v.shape[0], mode)
    return torch.where(outside[:, None], torch.zeros_like(v[:1]), v[place])


def torch_scatter(torch, x, kind, mode):
    v, i, new = x
    place, outside = in_range(i, v.shape[0], mode)
    rows = list(v)
    for k in range(len(i)):
        if not outside[k]:
            old, row = rows[place[k]], new[k]
            rows[place[k]] = {"set": row, "add": old + row, "max": torch.maximum(old, row)}[kind]
    return torch.stack(rows)


def has_ties(order: list[Node], values: dict) -> bool:
    """Whether some maximum is reached more than once: there the conventions for its gradient differ."""
    for node in order:
        x = [values[operand].detach().numpy() for operand in node.inputs]
        if node.op in ("max", "min") and (x[0] == x[1]).any():
            return True
        if node.op in ("reduce", "scan") and node.attrs[0] in ("max", "min"):
            axis = node.attrs[1][0] if node.op == "reduce" else node.attrs[1]
            if any(
                len(set(row)) < len(row) for row in np.moveaxis(x[0], axis, -1).reshape(-1, x[0].shape[axis])
            ):
                return True
        if node.op == "scatter" and node.attrs[0] == "max" and np.isin(x[2], x[0]).any():
            return True
    return False


@draw(st.integers(0, 1_000_000), st.integers(1, 9))
@settings(max_examples=150)
def test_values_and_gradients_are_torchs(seed, steps) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional oracle")
    graph = Graph(np.random.default_rng(seed), float64, OPERATIONS)
    output = small(graph, steps)
    theirs, order = in_torch(torch, output, graph.leaves)
    np.testing.assert_allclose(
        to_numpy(evaluate([output], REFERENCE)[0]), theirs[output].detach().numpy(), rtol=1e-9, atol=1e-9
    )
    if has_ties(order, theirs):
        return
    leaves = [theirs[leaf] for leaf in graph.leaves]
    first = torch.autograd.grad(theirs[output].sum(), leaves, create_graph=True, materialize_grads=True)
    nodes = differentiate([output], graph.leaves)
    compare(nodes, first)
    total = sum((gradient * gradient).sum() for gradient in first)
    if total.requires_grad:
        second = torch.autograd.grad(total, leaves, materialize_grads=True)
        compare(differentiate([b.mul(node, node) for node in nodes], graph.leaves), second)


def in_torch(torch, output: Node, leaves: list[Node]):
    from engine.core.walk import post_order

    order = post_order([output, *leaves])
    values = {}
    for node in order:
        if node.inputs:
            values[node] = torch_value(torch, node, values)
        else:
            array = to_numpy(evaluate([node], REFERENCE)[0])
            values[node] = torch.tensor(array, requires_grad=node in leaves)
    return values, order


def compare(nodes: list[Node], wanted) -> None:
    for mine, other in zip(evaluate(nodes, REFERENCE), wanted, strict=True):
        np.testing.assert_allclose(to_numpy(mine), torch_numbers(other), rtol=1e-7, atol=1e-8)


# ---- device against device


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@draw(st.integers(0, 1_000_000), st.integers(1, 7))
@settings(max_examples=60)
def test_both_devices_have_the_same_bits(dtype, seed, steps) -> None:
    cpu = default_device()
    if cpu.name != "cpu":
        pytest.skip("no C compiler here")
    graph = Graph(np.random.default_rng(seed), dtype, EXACT_OPERATIONS)
    output = small(graph, steps)
    nodes = [output, *differentiate([output], graph.leaves)]
    results = []
    for device in (REFERENCE, cpu):
        results.append([array.tobytes() for array in evaluate(nodes, device)])
        for node in nodes:
            if node not in graph.leaves:
                node.value = None
    assert results[0] == results[1]
