"""Differentiation as a graph transform: merging, order of summation, depth, seeds, errors."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest
from primitives import REFERENCE, given, value

from engine.autodiff.check import check_gradients
from engine.autodiff.differentiate import differentiate
from engine.autodiff.merge import merge
from engine.core import build as b
from engine.core.dim import symbol
from engine.core.dtype import bool_, float32, float64, int64
from engine.core.node import Node
from engine.core.opdef import make
from engine.core.walk import post_order
from engine.devices.evaluate import evaluate
from engine.errors import DeviceError, DTypeError, GradientError, ShapeError

DEEP = 100_000


def x64(*values: float) -> Node:
    return given(np.array(values, float))


# ---- the walk and the merge


def test_post_order_visits_inputs_first_from_left_to_right() -> None:
    x, y = x64(1), x64(2)
    left, right = b.exp(x), b.mul(y, x)
    top = b.add(left, right)
    assert post_order([top, y]) == [x, left, y, right, top]
    assert post_order([right, top]) == [y, x, right, left, top]


def test_equal_nodes_have_one_leader() -> None:
    x, y = x64(1), x64(1)
    first, second = b.exp(b.neg(x)), b.exp(b.neg(x))
    other = b.exp(b.neg(y))  # equal values, but another input
    top = b.add(b.add(first, second), other)
    order, leaders = merge([top])
    assert leaders[second] is first
    assert leaders[other] is other
    assert [node.op for node in order] == ["input", "neg", "exp", "add", "input", "neg", "exp", "add"]
    assert merge([top], distinct={second})[1][second] is second


def test_constants_merge_by_their_bytes_and_type() -> None:
    zero, minus_zero = b.constant(0.0, float64), b.constant(-0.0, float64)
    nodes = [zero, minus_zero, b.constant(0, float64), b.constant(0, int64), b.constant(0, float32)]
    _, leaders = merge(nodes)
    assert [leaders[node] is zero for node in nodes] == [True, False, True, False, False]


# ---- bits


def shared_trunk(order: str) -> tuple[Node, Node]:
    """One function of x, its parts recorded in the order given."""
    x = given(np.array([0.1, 0.7, 1e8, -3e-8]), float32)
    parts = {}
    for name in order:
        parts[name] = {"a": b.exp, "b": b.sin, "c": b.tanh, "d": b.sqrt}[name](b.abs(x))
    total = b.add(b.add(parts["a"], parts["b"]), b.add(parts["c"], parts["d"]))
    return x, total


def test_bits_do_not_depend_on_the_order_of_recording() -> None:
    results = set()
    for order in ("abcd", "dcba", "bdac"):
        x, total = shared_trunk(order)
        results.add(evaluate(differentiate([total], [x]), REFERENCE)[0].tobytes())
    assert len(results) == 1


def test_bits_do_not_depend_on_whether_equal_nodes_were_recorded_once_or_twice() -> None:
    x = given(np.array([0.1, 0.7, -3.0]), float32)
    once = b.exp(b.mul(x, x))
    shared = b.mul(b.add(once, x), once)
    doubled = b.mul(b.add(b.exp(b.mul(x, x)), x), b.exp(b.mul(x, x)))
    a, c = (evaluate(differentiate([top], [x]), REFERENCE)[0].tobytes() for top in (shared, doubled))
    assert a == c


# ---- what is differentiated


def test_gradients_of_gradients() -> None:
    # x⁴: 4x³, 12x², 24x, 24, 0
    x = x64(1.5)
    node = b.mul(b.mul(x, x), b.mul(x, x))
    for wanted in (4 * 1.5**3, 12 * 1.5**2, 24 * 1.5, 24.0, 0.0):
        (node,) = differentiate([node], [x])
        assert value(node).tolist() == [wanted]


def test_seeds_weigh_the_outputs() -> None:
    x = x64(1, 2)
    outputs = [b.mul(x, x), b.neg(x)]
    (gradient,) = differentiate(outputs, [x], [x64(10, 1), x64(3, 5)])
    assert value(gradient).tolist() == [2 * 10 - 3, 4 - 5]


def test_an_output_may_be_asked_for_twice_and_be_its_own_input() -> None:
    x = x64(3)
    assert value(differentiate([x, x], [x])[0]).tolist() == [2]
    assert value(differentiate([b.exp(x)], [x64(1)])[0]).tolist() == [0]


def test_inner_nodes_have_gradients_of_their_own() -> None:
    x = x64(0.5)
    first, second = b.exp(x), b.exp(x)  # equal, but each asked for by itself
    product = b.mul(first, b.mul(second, second))
    gradients = evaluate(differentiate([product], [first, second, x]), REFERENCE)
    e = np.exp(0.5)
    np.testing.assert_allclose([g.tolist()[0] for g in gradients], [e**2, 2 * e**2, 3 * e**3], rtol=1e-14)


def test_inner_nodes_can_be_differentiated_twice() -> None:
    x = x64(0.5)
    square = b.mul(b.exp(x), b.exp(x))
    (first,) = differentiate([b.mul(square, b.mul(square, square))], [square])
    (second,) = differentiate([first], [square])
    np.testing.assert_allclose(value(second), 6 * np.exp(1.0), rtol=1e-14)


def test_detached_values_are_constants() -> None:
    x = x64(3)
    assert value(differentiate([b.mul(x, b.detach(x))], [x])[0]).tolist() == [3]
    straight = b.add(x, b.detach(b.sub(b.rint(x), x)))  # rounds, with the slope of the identity
    assert value(differentiate([straight], [x])[0]).tolist() == [1]


def test_integers_have_no_gradient() -> None:
    n = given(np.array([1, 2]))
    with pytest.raises(GradientError, match="wrt is int64: only floats have gradients"):
        differentiate([x64(1)], [n])
    with pytest.raises(GradientError, match="output is int64"):
        differentiate([n], [x64(1)])


def test_seeds_must_fit() -> None:
    x = x64(1, 2)
    with pytest.raises(ShapeError, match=r"a seed has shape \(1,\), its output \(2,\)"):
        differentiate([x], [x], [x64(1)])
    with pytest.raises(DTypeError, match="a seed is float32, its output float64"):
        differentiate([x], [x], [given(np.ones(2), float32)])


# ---- evaluation


def test_values_are_memoised_for_what_is_asked_only() -> None:
    x = x64(2)
    inner = b.exp(x)
    outer = b.log(inner)
    array = evaluate([outer], REFERENCE)[0]
    assert outer.value is array
    assert inner.value is None
    assert evaluate([outer], REFERENCE)[0] is array
    assert evaluate([outer, inner, outer], REFERENCE)[2] is array
    assert inner.value is not None


def test_a_leaf_without_value_is_named() -> None:
    with pytest.raises(DeviceError, match=r"<input float64\[2, 3\]> has no value"):
        evaluate([b.exp(b.input((2, 3), float64))], REFERENCE)


def test_values_are_freed_after_their_last_reader() -> None:
    class Counting:
        name, exact = "counting", False

        def run(self, op, attrs, inputs, shape, dtype):
            result = REFERENCE.run(op, attrs, inputs, shape, dtype)
            addresses.append(result.address)
            return result

    addresses: list[int] = []
    node = x64(*range(8))
    for _ in range(50):
        node = b.tanh(node)
    evaluate([node], Counting())
    assert len(addresses) == 50
    assert len(set(addresses)) <= 4  # freed blocks are used again


# ---- depth


def deep_chain(x: Node) -> Node:
    y = x
    for i in range(DEEP):
        y = b.add(y, x) if i % 2 else b.neg(y)
    return y


def test_a_chain_of_a_hundred_thousand_nodes() -> None:
    assert sys.getrecursionlimit() < DEEP
    x = x64(1.0, -2.0)
    chain = deep_chain(x)
    assert value(chain).tolist() == expected_chain([1.0, -2.0])
    gradient = differentiate([chain], [x])[0]
    assert value(gradient).tolist() == expected_chain([1.0, 1.0])
    assert repr(chain) == "<add float64[2]>"
    watched = weakref.ref(chain.inputs[0].inputs[0])
    del chain, gradient
    gc.collect()
    assert watched() is None


def expected_chain(values: list[float]) -> list[float]:
    out = list(values)
    for i in range(DEEP):
        out = [y + x for y, x in zip(out, values, strict=True)] if i % 2 else [-y for y in out]
    return out


# ---- the check itself


def record_with(rule):
    def record(inputs):
        leaves = [b.input(x.shape, x.dtype) for x in inputs]
        for leaf, x in zip(leaves, inputs, strict=True):
            leaf.value = x
        return leaves, rule(*leaves)

    return record


def test_the_check_names_the_element_with_a_wrong_gradient() -> None:
    record = record_with(lambda x, y: b.mul(b.detach(x), b.mul(x, y)))  # half of x's gradient is hidden
    inputs = [x64(1, 2).value, x64(3, 0).value]
    with pytest.raises(GradientError, match=r"gradient of input 0, element \(0,\): .* difference quotient"):
        check_gradients(record, inputs, REFERENCE)


def test_the_check_finds_a_wrong_second_gradient() -> None:
    def cube(x: Node) -> Node:
        slope = b.detach(b.mul(b.full_like(x, 3), b.mul(x, x)))  # right, but a constant
        return b.add(b.detach(b.mul(b.mul(x, x), x)), b.mul(slope, b.sub(x, b.detach(x))))

    inputs = [x64(0.7).value]
    assert check_gradients(record_with(cube), inputs, REFERENCE)
    with pytest.raises(GradientError, match="second gradient of input 0"):
        check_gradients(record_with(cube), inputs, REFERENCE, order=2)


def test_the_check_allows_unused_inputs_and_holds_integers_constant() -> None:
    record = record_with(lambda x, unused, index: b.gather(x, (index,), "wrap"))
    inputs = [x64(1, 2, 4).value, x64(5).value, given(np.array([2, 2, -2])).value]
    assert check_gradients(record, inputs, REFERENCE, order=2)


def test_the_check_sees_errors_that_would_cancel_in_a_plain_sum() -> None:
    # x - flip(x) with the second part detached: the sum of wrong gradients differs, each element does too
    record = record_with(lambda x: b.sub(x, b.detach(b.flip(x, 0))))
    with pytest.raises(GradientError):
        check_gradients(record, [x64(1, 2, 3).value], REFERENCE)


def test_the_order_of_the_check_is_one_or_two() -> None:
    with pytest.raises(ValueError, match="order 3 must be 1 or 2"):
        check_gradients(record_with(b.exp), [x64(1).value], REFERENCE, order=3)


# ---- symbolic sizes


R, C = symbol("R"), symbol("C")


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("mul", [(R, C), (R, C)], ()),
        ("select", [(R,), (R,), (R,)], ()),
        ("reshape", [(R, 6)], ((R * 2, 3),)),
        ("transpose", [(R, C, 4)], ((2, 0, 1),)),
        ("broadcast", [(1, C)], ((R, 2, C),)),
        ("slice", [(R, 7)], ((0, 6), (R, 3), (1, -2))),
        ("slice", [(R * 2,)], ((0,), (R,), (2,))),
        ("pad", [(R, 2), ()], ((1, 0), (0, C))),
        ("concat", [(R, 2), (R, C)], (1,)),
        ("reduce", [(R, 2, C)], ("sum", (0, 2))),
        ("reduce", [(R, 2, C)], ("prod", (1,))),
        ("reduce", [(R, 2, C)], ("max", (1,))),
        ("scan", [(R, C)], ("sum", 1, False)),
        ("scan", [(R, C)], ("max", 0, True)),
        ("scan", [(R, 5)], ("prod", 1, True)),
        ("dot", [(2, R, 3), (2, 3, C)], ()),
        ("gather", [(R, 4), (C, 7)], ("clamp",)),
        ("scatter", [(R, 4), (C,), (C, 4)], ("set", "zero")),
        ("scatter", [(R, 4), (C,), (C, 4)], ("max", "zero")),
    ],
    ids=str,
)
def test_gradients_are_recorded_for_symbolic_sizes(op, shapes, attrs) -> None:
    integer = {"gather": 1, "scatter": 1}.get(op)
    inputs = [b.input(shape, int64 if i == integer else float32) for i, shape in enumerate(shapes)]
    if op == "select":
        inputs[0] = b.input((R,), bool_)
    wrt = [x for x in inputs if x.dtype is float32]
    output = make(op, tuple(inputs), *attrs)
    gradients = differentiate([b.mul(output, output)], wrt)
    assert [g.shape for g in gradients] == [x.shape for x in wrt]
    assert [g.shape for g in differentiate(gradients, wrt)] == [x.shape for x in wrt]


def test_a_running_product_of_symbolic_length_is_refused() -> None:
    x = b.input((R,), float32)
    with pytest.raises(GradientError, match="axis 0 has length R"):
        differentiate([b.scan(x, "prod", 0)], [x])
