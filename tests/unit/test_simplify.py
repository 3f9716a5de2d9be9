"""Each rule of the simplifier over special values: it applies where it should, and no bit changes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

import pytest
from plan_graphs import canonical

from engine.compiler import simplify as module
from engine.compiler.simplify import simplify
from engine.core import build as b
from engine.core.dtype import FLOATS, INTS, DType, bfloat16, bool_, float32, float64, int32, int64, uint32
from engine.core.node import Node
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.evaluate import evaluate
from engine.devices.reference import ReferenceDevice

REFERENCE = ReferenceDevice()
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    3.0,
    inf,
    -inf,
    nan,
    1e-40,
    -5e-45,
    1.1754944e-38,
    3.4028235e38,
    -2.5,
    1e-300,
    7.0,
]
WHOLE = [0, 1, 2, 3, 5, 7, 2**31 - 1, 100, 4, 6, 8, 9, 10, 11, 12, 13]


def leaf(dtype: DType = float32, shape: tuple[int, ...] = (16,), turn: int = 0) -> Node:
    node = b.input(shape, dtype)
    source = [value > 0 for value in SPECIAL] if dtype is bool_ else WHOLE if dtype in INTS else SPECIAL
    count = 1
    for size in shape:
        count *= size
    values = [source[(i * (turn + 1) + turn) % len(source)] for i in range(count)]
    if dtype in (int32, int64):
        values = [-value if i % 2 else value for i, value in enumerate(values)]
    node.value = Array.from_list(values, shape, dtype)
    return node


def full(x: Node, value: float) -> Node:
    return b.full(x.shape, x.dtype, value)


def ops(node: Node) -> list[str]:
    return [own.op for own in post_order([node]) if own.op not in ("input", "constant", "broadcast")]


def check(node: Node, left: list[str]) -> Node:
    """The simplified node, which has the operations ``left`` and the bits of ``node``."""
    (simple,) = simplify([node])
    assert ops(simple) == left
    assert (simple.shape, simple.dtype) == (node.shape, node.dtype)
    before, after = evaluate([node], REFERENCE)[0], evaluate([simple], REFERENCE)[0]
    assert canonical(before) == canonical(after)
    return simple


F = (float32, float64, bfloat16)
RULES: list[tuple[str, tuple[DType, ...], Callable[[Node], Node], list[str]]] = [
    ("x + -0.0", F, lambda x: b.add(x, full(x, -0.0)), []),
    ("-0.0 + x", F, lambda x: b.add(full(x, -0.0), x), []),
    ("x + 0.0 stays", F, lambda x: b.add(x, full(x, 0.0)), ["add"]),
    ("x + 0", (int32, int64, uint32), lambda x: b.add(x, full(x, 0)), []),
    ("x - 0.0", F, lambda x: b.sub(x, full(x, 0.0)), []),
    ("x - -0.0 stays", F, lambda x: b.sub(x, full(x, -0.0)), ["sub"]),
    ("0.0 - x stays", F, lambda x: b.sub(full(x, 0.0), x), ["sub"]),
    ("x * 1", (*F, int32, int64, uint32), lambda x: b.mul(x, full(x, 1)), []),
    ("1 * x", F, lambda x: b.mul(full(x, 1), x), []),
    ("x * 0 stays", F, lambda x: b.mul(x, full(x, 0)), ["mul"]),
    ("x / 1", F, lambda x: b.div(x, full(x, 1)), []),
    ("x / 8", F, lambda x: b.div(x, full(x, 8)), ["mul"]),
    ("x / -0.25", F, lambda x: b.div(x, full(x, -0.25)), ["mul"]),
    ("x / 2^-128 stays", (float32, bfloat16), lambda x: b.div(x, full(x, 2.0**-128)), ["div"]),
    ("x / 2^127 stays", (float32, bfloat16), lambda x: b.div(x, full(x, 2.0**127)), ["div"]),
    ("x / 2^126", (float32,), lambda x: b.div(x, full(x, 2.0**126)), ["mul"]),
    ("x / 3 stays", F, lambda x: b.div(x, full(x, 3)), ["div"]),
    ("x / 0 stays", F, lambda x: b.div(x, full(x, 0)), ["div"]),
    ("x + -y", F, lambda x: b.add(x, b.neg(leaf(x.dtype, turn=1))), ["sub"]),
    ("-y + x", F, lambda x: b.add(b.neg(leaf(x.dtype, turn=1)), x), ["sub"]),
    ("x - -y", F, lambda x: b.sub(x, b.neg(leaf(x.dtype, turn=1))), ["add"]),
    ("x - x stays", F, lambda x: b.sub(x, x), ["sub"]),
    ("--x", (*F, int32), lambda x: b.neg(b.neg(x)), []),
    ("~~x", (int32, bool_), lambda x: b.not_(b.not_(x)), []),
    ("|-x|", F, lambda x: b.abs(b.neg(x)), ["abs"]),
    ("||x||", F, lambda x: b.abs(b.abs(x)), ["abs"]),
    ("max(x, x)", (*F, int32), lambda x: b.max(x, x), []),
    ("min(x, x)", F, lambda x: b.min(x, x), []),
    ("x & x", (int32, bool_), lambda x: b.and_(x, x), []),
    ("x | x", (uint32, bool_), lambda x: b.or_(x, x), []),
    ("x ^ x stays", (int32,), lambda x: b.xor(x, x), ["xor"]),
    ("select(true, x, y)", F, lambda x: b.select(b.full(x.shape, bool_, 1), x, leaf(x.dtype, turn=2)), []),
    ("select(false, x, y)", F, lambda x: b.select(b.full(x.shape, bool_, 0), leaf(x.dtype, turn=2), x), []),
    ("select(p, x, x)", F, lambda x: b.select(leaf(bool_), x, x), []),
    ("select(not p, x, y)", F, lambda x: b.select(b.not_(leaf(bool_)), x, leaf(x.dtype, turn=1)), ["select"]),
    ("cast to itself", (float32, int64), lambda x: b.cast(x, x.dtype), []),
    ("float32 and back", (float32,), lambda x: b.cast(b.cast(x, float64), float32), []),
    ("bfloat16 and back", (bfloat16,), lambda x: b.cast(b.cast(x, float32), bfloat16), []),
    ("int32 through int64", (int32,), lambda x: b.cast(b.cast(x, int64), float64), ["cast"]),
    ("bool through float", (bool_,), lambda x: b.cast(b.cast(x, float32), int32), ["cast"]),
    ("narrowing stays", (float64,), lambda x: b.cast(b.cast(x, float32), float64), ["cast", "cast"]),
    ("int to float stays", (int32,), lambda x: b.cast(b.cast(x, float32), int32), ["cast", "cast"]),
    ("bitcast to itself", (float32, int32), lambda x: b.bitcast(x, x.dtype), []),
    ("detach", F, b.detach, []),
    ("pass_grad", F, b.pass_grad, []),
    ("keep stays", F, b.keep, ["keep"]),
    ("exp of a constant", F, lambda x: b.mul(x, b.exp(full(x, 0.5))), ["exp", "mul"]),
    ("(2 + 3) * x", F[:2], lambda x: b.mul(b.add(full(x, 2), full(x, 3)), x), ["mul"]),
    ("1 / 3 * x", F[:2], lambda x: b.mul(b.div(full(x, 1), full(x, 3)), x), ["mul"]),
    (
        "a scalar 1 / 3",
        F[:2],
        lambda x: b.mul(x, b.broadcast(b.div(b.constant(1, x.dtype), b.constant(3, x.dtype)), x.shape)),
        ["mul"],
    ),
    ("1 / 0 stays", F[:2], lambda x: b.mul(b.div(full(x, 1), full(x, 0)), x), ["div", "mul"]),
    ("-0.1 * x", F[:2], lambda x: b.mul(b.neg(full(x, 0.1)), x), ["mul"]),
    ("sum over size 1", F, lambda x: b.sum(b.reshape(x, (16, 1)), (1,)), []),
    ("max over size 1", F, lambda x: b.reduce(b.reshape(x, (16, 1)), "max", (1,)), []),
    ("two reshapes", F, lambda x: b.reshape(b.reshape(x, (4, 4)), (2, 8)), ["reshape"]),
    ("reshape back", F, lambda x: b.reshape(b.reshape(x, (4, 4)), (16,)), []),
    (
        "two transposes",
        F,
        lambda x: b.transpose(b.transpose(b.reshape(x, (2, 2, 4)), (1, 2, 0)), (2, 0, 1)),
        ["reshape"],
    ),
    ("two broadcasts", F, lambda x: b.neg(b.broadcast(b.broadcast(x, (2, 16)), (3, 2, 16))), ["neg"]),
    ("two slices", F, lambda x: b.slice(b.slice(x, (2,), (6,), (2,)), (4,), (2,), (-3,)), ["slice"]),
    ("slice of all", F, lambda x: b.slice(x, (0,), (16,), (1,)), []),
    ("flip stays", F, lambda x: b.flip(x, 0), ["slice"]),
    (
        "slice inside pad",
        F,
        lambda x: b.slice(b.pad(x, b.constant(1, x.dtype), (3,), (2,)), (4,), (5,), (2,)),
        ["slice"],
    ),
    (
        "slice of the border stays",
        F,
        lambda x: b.slice(b.pad(x, b.constant(1, x.dtype), (3,), (2,)), (2,), (5,), (2,)),
        ["pad", "slice"],
    ),
    (
        "slice of one of two",
        F,
        lambda x: b.slice(b.concat((x, leaf(x.dtype, turn=3)), 0), (17,), (3,), (2,)),
        ["slice"],
    ),
    ("slice across stays", F, lambda x: b.slice(b.concat((x, x), 0), (14,), (4,), (1,)), ["concat", "slice"]),
    ("pad by nothing", F, lambda x: b.pad(x, b.constant(1, x.dtype), (0,), (0,)), []),
    (
        "pad of its fill",
        F,
        lambda x: b.mul(
            b.pad(full(x, 1), b.constant(1, x.dtype), (1,), (2,)),
            b.pad(x, b.constant(5, x.dtype), (1,), (2,)),
        ),
        ["pad"],
    ),
    (
        "pad of a product",
        F,
        lambda x: b.pad(b.mul(x, full(x, 3)), b.constant(0, x.dtype), (1,), (2,)),
        ["pad", "mul"],
    ),
    (
        "pad of a negative product stays",
        F,
        lambda x: b.pad(b.mul(x, full(x, -3)), b.constant(0, x.dtype), (1,), (2,)),
        ["mul", "pad"],
    ),
    ("concat of one", F, lambda x: b.concat((x,), 0), []),
    (
        "transpose of a constant",
        F,
        lambda x: b.mul(x, b.reshape(b.transpose(b.full((2, 8), x.dtype, 3), (1, 0)), (16,))),
        ["mul"],
    ),
    (
        "a count beside another axis",
        F,
        lambda x: b.add(b.iota((4, 4), 0, x.dtype), b.reshape(x, (4, 4))),
        [
            "iota",
            "reshape",
            "reshape",
            "add",
        ],
    ),
    (
        "a copy under a product",
        F,
        lambda x: b.reshape(b.swap_last(b.mul(b.reshape(x, (2, 8)), b.full((2, 8), x.dtype, 3))), (16,)),
        ["reshape", "transpose", "reshape", "mul"],
    ),
    (
        "a product turned over",
        (*F, int32),
        lambda x: b.swap_last(b.dot(b.reshape(x, (2, 4, 2)), b.swap_last(b.reshape(x, (2, 4, 2))))),
        ["reshape", "reshape", "transpose", "dot"],
    ),
]


@pytest.mark.parametrize(
    ("dtype", "make", "left"),
    [
        pytest.param(dtype, make, left, id=f"{name} {dtype}")
        for name, dtypes, make, left in RULES
        for dtype in dtypes
    ],
)
def test_rule(dtype: DType, make: Callable[[Node], Node], left: list[str]) -> None:
    check(make(leaf(dtype)), left)


def test_every_rule_has_a_case() -> None:
    applied = set()
    names = {rule.__name__ for rule in module.rules()}

    def noted(rule: module.Rule) -> module.Rule:
        def apply(node: Node) -> Node | None:
            following = rule(node)
            if following is not None:
                applied.add(rule.__name__)
            return following

        return apply

    tables = (module._RULES, module._KIND_RULES)
    saved = [dict(table) for table in tables]
    try:
        for table in tables:
            for key, own in table.items():
                table[key] = tuple([noted(rule) for rule in own])
        for _, dtypes, make, _ in RULES:
            simplify([make(leaf(dtypes[0]))])
    finally:
        for table, old in zip(tables, saved, strict=True):
            table.update(old)
    assert applied == names


def test_a_product_with_two_readers_is_not_computed_twice() -> None:
    product = b.dot(leaf(shape=(2, 3)), leaf(shape=(3, 4)))
    turned, _ = simplify([b.swap_last(product), product])
    assert turned.inputs == (product,)


def test_a_value_with_two_readers_is_not_computed_twice() -> None:
    x = leaf()
    product = b.mul(b.reshape(x, (2, 8)), b.full((2, 8), float32, 3))
    copy = b.reshape(b.swap_last(product), (16,))
    first, second = simplify([copy, product])
    assert ops(first) == ["reshape", "mul", "transpose", "reshape"]
    assert second is product


def test_unchanged_nodes_stay_themselves() -> None:
    node = b.exp(b.add(leaf(), leaf(turn=1)))
    assert simplify([node]) == [node]


def test_a_chain_of_100_000_nodes_takes_one_visit_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = 0
    step = module._step

    def counted(node: Node) -> Node | None:
        nonlocal visits
        visits += 1
        return step(node)

    monkeypatch.setattr(module, "_step", counted)
    x = node = leaf()
    one = full(x, 1)
    for _ in range(50_000):
        node = b.neg(b.mul(node, one))
    (simple,) = simplify([node])
    assert simple is x
    assert visits <= 2 * 100_000 + 2


def test_floats_are_all_that_have_signed_zeros() -> None:
    assert {float32, float64, bfloat16} == set(FLOATS)
