"""Random expressions around products: epilogues and chains against one node a kernel, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.compiler.plan import Plan
from engine.core import build as b
from engine.core.dim import evaluate as evaluate_dim
from engine.core.dtype import DType, float32, float64
from engine.core.node import Node
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.evaluate import evaluate
from engine.devices.toolchain import find_toolchain

if find_toolchain() is None:
    pytest.skip("no C compiler here", allow_module_level=True)

CPU = CpuDevice(threads=3)
SPECIAL = (0.0, -0.0, 1.0, -1.0, float("inf"), float("nan"), 1e-40, 3e38)


def operand(draw: st.DataObject, shape: tuple[int, ...], dtype: DType) -> Node:
    """A matrix of that shape: an input, a transpose, a slice or a broadcast of one."""
    *batch, rows, columns = shape
    kind = draw.draw(st.sampled_from(("plain", "transposed", "part", "repeated")))
    if kind == "transposed":
        x = b.input((*batch, columns, rows), dtype)
        return b.transpose(x, (*range(len(batch)), len(batch) + 1, len(batch)))
    if kind == "part":
        return b.take(b.input((*batch, rows, columns + 3), dtype), len(shape) - 1, 2, columns)
    if kind == "repeated" and batch:
        return b.broadcast(b.input((rows, columns), dtype), shape)
    return b.input(shape, dtype)


def along_rows(x: Node, kind: Literal["sum", "max"]) -> Node:
    axis = x.rank - 1
    return b.sub(x, b.expand(b.reduce(x, kind, (axis,)), (axis,), x.shape))


AROUND: dict[str, Callable[[Node], Node]] = {
    "bias": lambda y: b.add(y, b.broadcast(b.input(y.shape[-1:], y.dtype), y.shape)),
    "each row": lambda y: b.mul(y, b.broadcast(b.input((*y.shape[:-1], 1), y.dtype), y.shape)),
    "residual": lambda y: b.sub(b.input(y.shape, y.dtype), y),
    "tanh": b.tanh,
    "square": lambda y: b.mul(y, y),
    "select": lambda y: b.select(b.lt(y, b.zeros_like(y)), b.input(y.shape, y.dtype), y),
    "less the sum": lambda y: along_rows(y, "sum"),
    "less the greatest": lambda y: along_rows(y, "max"),
}


def values(node: Node, random: np.random.Generator) -> Array:
    shape = tuple(evaluate_dim(dim, {}) for dim in node.shape)
    x = random.standard_normal(shape)
    at = random.random(shape) < 0.003
    x[at] = random.choice(SPECIAL, int(at.sum()))
    return Array.from_bytes(x.astype(node.dtype.name).tobytes(), shape, node.dtype)


def check(targets: list[Node]) -> None:
    inputs = [node for node in post_order(targets) if node.op == "input"]
    random = np.random.default_rng(3)
    feeds: dict[Node | str, Array] = {node: values(node, random) for node in inputs}
    found = Plan(inputs, targets, CPU).run(feeds)
    for node in inputs:
        node.value = feeds[node]
    for mine, wanted in zip(found, evaluate(targets, CPU), strict=True):
        x, y = (np.frombuffer(value.tobytes(), mine.dtype.name) for value in (mine, wanted))
        assert ((x.view(f"u{x.itemsize}") == y.view(f"u{x.itemsize}")) | (np.isnan(x) & np.isnan(y))).all()


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=st.tuples(st.integers(1, 70), st.integers(0, 420), st.integers(1, 300)),
    batch=st.lists(st.integers(1, 5), max_size=2),
    around=st.lists(st.sampled_from(sorted(AROUND)), min_size=1, max_size=4),
    keeps=st.booleans(),
    dtype=st.sampled_from((float32, float64)),
    draw=st.data(),
)
def test_what_follows_a_product(  # noqa: PLR0917
    sizes: tuple[int, int, int],
    batch: list[int],
    around: list[str],
    keeps: bool,
    dtype: DType,
    draw: st.DataObject,
) -> None:
    m, k, n = sizes
    product = y = b.dot(operand(draw, (*batch, m, k), dtype), operand(draw, (*batch, k, n), dtype))
    for name in around:
        y = AROUND[name](y)
    check([y, product] if keeps else [y])


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batch=st.lists(st.integers(1, 5), min_size=1, max_size=2),
    sizes=st.lists(st.integers(1, 40), min_size=4, max_size=4),
    around=st.lists(st.sampled_from(sorted(AROUND)), min_size=3, max_size=3),
    merged=st.booleans(),
    dtype=st.sampled_from((float32, float64)),
    draw=st.data(),
)
def test_products_after_each_other(  # noqa: PLR0917
    batch: list[int], sizes: list[int], around: list[str], merged: bool, dtype: DType, draw: st.DataObject
) -> None:
    m, k, n, p = sizes
    x = AROUND[around[0]](operand(draw, (*batch, m, k), dtype))
    y = AROUND[around[1]](b.dot(x, operand(draw, (*batch, k, n), dtype)))
    z = AROUND[around[2]](b.dot(y, operand(draw, (*batch, n, p), dtype)))
    if merged and len(batch) == 2:
        z = b.reshape(b.transpose(z, (0, 2, 1, 3)), (batch[0] * m, batch[1] * p))
    check([z])
