"""Products with epilogues, and chains of batched products: steps of their plans, and bits at many sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from engine.autodiff.differentiate import differentiate
from engine.compiler.plan import Plan
from engine.compiler.steps import ChainStep, DotStep, SingleStep, Step
from engine.core import build as b
from engine.core.dim import Dim, Poly, symbol
from engine.core.dim import evaluate as size_at
from engine.core.dtype import DType, float32, float64
from engine.core.node import Node
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.evaluate import evaluate
from engine.devices.toolchain import find_toolchain

if find_toolchain() is None:
    pytest.skip("no C compiler here", allow_module_level=True)

CPU = CpuDevice(threads=2)
ROWS = symbol("rows")


def steps_of(targets: list[Node]) -> list[Step]:
    plan = Plan([node for node in post_order(targets) if node.op == "input"], targets, CPU)
    return [step for step in plan.blueprint.steps if not step.fixed]


def check(targets: list[Node], **sizes: int) -> None:
    """A plan of ``targets`` and one node a kernel, on the same random values with some special ones."""
    inputs = [node for node in post_order(targets) if node.op == "input"]
    plan = Plan(inputs, targets, CPU)
    random = np.random.default_rng(7)
    feeds: dict[Node | str, Array] = {}
    for node in inputs:
        shape = plan.bind(sizes).shape(node.shape)
        values = random.standard_normal(shape)
        values[random.random(shape) < 0.01] = -0.0
        values[random.random(shape) < 0.002] = np.inf
        raw = values.astype(node.dtype.name).tobytes()
        feeds[node] = Array.from_bytes(raw, shape, node.dtype)
    found = plan.run(feeds)
    fixed = _at_sizes(targets, sizes, feeds)
    for mine, wanted in zip(found, evaluate(fixed, CPU), strict=True):
        x, y = (np.frombuffer(value.tobytes(), mine.dtype.name) for value in (mine, wanted))
        bits = f"u{x.itemsize}"
        assert ((x.view(bits) == y.view(bits)) | (np.isnan(x) & np.isnan(y))).all()


def _at_sizes(targets: list[Node], sizes: dict[str, int], feeds: dict[Node | str, Array]) -> list[Node]:
    """The graph with numbers for its symbols and values for its inputs."""

    def concrete(item: object) -> object:
        if isinstance(item, tuple):
            return tuple(concrete(own) for own in item)
        return size_at(item, sizes) if isinstance(item, Poly) else item

    made: dict[Node, Node] = {}
    for node in post_order(targets):
        shape = tuple(size_at(dim, sizes) for dim in node.shape)
        attrs = concrete(node.attrs)
        assert isinstance(attrs, tuple)
        made[node] = Node(node.op, tuple(made[x] for x in node.inputs), attrs, shape, node.dtype)
        if node in feeds:
            made[node].value = feeds[node]
    return [made[target] for target in targets]


def linear(m: Dim, k: int, n: int, dtype: DType) -> tuple[Node, Node]:
    """x·wᵀ + bias, as layers compute it, and the product alone."""
    x, w, bias = b.input((m, k), dtype), b.input((n, k), dtype), b.input((n,), dtype)
    product = b.dot(x, b.transpose(w, (1, 0)))
    return b.add(product, b.broadcast(bias, (m, n))), product


def rowwise(x: Node) -> Node:
    """Softmax along rows."""
    top = b.expand(b.reduce(x, "max", (1,)), (1,), x.shape)
    e = b.exp(b.sub(x, top))
    return b.div(e, b.expand(b.reduce(e, "sum", (1,)), (1,), x.shape))


EPILOGUES: dict[str, Callable[[Node, Node], list[Node]]] = {
    "bias": lambda y, _: [y],
    "relu": lambda y, _: [b.max(y, b.zeros_like(y))],
    "two results": lambda y, _: [b.tanh(y), b.mul(y, y)],
    "residual": lambda y, _: [b.add(y, b.input(y.shape, y.dtype))],
    "product read outside": lambda y, product: [b.tanh(y), b.transpose(product, (1, 0))],
    "product is a target": lambda y, product: [b.tanh(y), product],
    "mask": lambda y, _: [b.lt(y, b.zeros_like(y))],
    "softmax": lambda y, _: [rowwise(y)],
    "softmax and its operand": lambda y, _: [rowwise(y), b.exp(y)],
}


@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogue_is_one_step(name: str) -> None:
    targets = EPILOGUES[name](*linear(ROWS, 24, 40, float32))
    (step,) = steps_of(targets)
    assert isinstance(step, DotStep)


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogue_bits(name: str, dtype: DType) -> None:
    for k, n in ((24, 40), (1, 1), (500, 300), (40, 65)):
        targets = EPILOGUES[name](*linear(ROWS, k, n, dtype))
        for rows in (0, 1, 3, 33, 200):
            check(targets, rows=rows)


def test_empty_inner_axis() -> None:
    targets = EPILOGUES["softmax"](*linear(ROWS, 0, 40, float32))
    check(targets, rows=5)


def test_two_products_in_one_expression() -> None:
    first, second = linear(ROWS, 24, 40, float32)[1], linear(ROWS, 30, 40, float32)[1]
    steps = steps_of([b.add(first, b.tanh(second))])
    assert [type(step) for step in steps] == [SingleStep, DotStep]
    check([b.add(first, b.tanh(second))], rows=33)


def test_columns_keep_their_kernel() -> None:
    y, _ = linear(ROWS, 24, 40, float32)
    steps = steps_of([b.reduce(y, "sum", (0,))])
    assert not any(isinstance(step, DotStep) for step in steps)


# ---- chains


def attention(batch: Dim, heads: int, length: int, width: int, dtype: DType = float32) -> tuple[Node, Node]:
    """qkv (batch, length, 3·heads·width) to (batch·length, heads·width), and the former."""
    qkv = b.input((batch, length, 3 * heads * width), dtype)
    parts = b.reshape(qkv, (batch, length, 3, heads, width))
    q, k, v = (
        b.transpose(b.reshape(b.take(parts, 2, at, 1), (batch, length, heads, width)), (0, 2, 1, 3))
        for at in range(3)
    )
    scores = b.dot(q, b.transpose(k, (0, 1, 3, 2)))
    scores = b.mul(scores, b.full(scores.shape, dtype, width**-0.5))
    mask = b.broadcast(b.input((length, length), dtype), scores.shape)
    scores = b.add(scores, mask)
    e = b.exp(b.sub(scores, b.expand(b.reduce(scores, "max", (3,)), (3,), scores.shape)))
    weights = b.div(e, b.expand(b.reduce(e, "sum", (3,)), (3,), e.shape))
    mixed = b.transpose(b.dot(weights, v), (0, 2, 1, 3))
    return b.reshape(mixed, (batch * length, heads * width)), qkv


def test_attention_is_one_kernel_and_with_its_gradient_only_chains() -> None:
    out, qkv = attention(ROWS, 4, 32, 16)
    (step,) = steps_of([out])
    assert isinstance(step, ChainStep)
    (grad,) = differentiate([out], [qkv], [b.input(out.shape, out.dtype)])
    assert all(isinstance(step, ChainStep) for step in steps_of([out, grad]))


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_attention_bits(dtype: DType) -> None:
    for heads, length, width in ((4, 32, 16), (1, 1, 1), (3, 70, 5), (2, 300, 32)):
        out, qkv = attention(ROWS, heads, length, width, dtype)
        (grad,) = differentiate([out], [qkv], [b.input(out.shape, out.dtype)])
        for rows in (0, 1, 2, 9):
            check([out, grad], rows=rows)


def test_few_long_units_run_part_by_part() -> None:
    out, _ = attention(ROWS, 2, 512, 32)
    check([out], rows=2)


def test_units_that_meet_others_are_no_chain() -> None:
    x = b.input((6, 8, 8), float32)
    y = b.dot(x, x)
    rolled = b.dot(b.concat((b.take(y, 0, 1, 5), b.take(y, 0, 0, 1)), 0), x)
    check([b.tanh(rolled)])
    reversed_ = b.dot(b.flip(y, 0), x)
    check([b.tanh(reversed_)])
