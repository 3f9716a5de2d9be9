"""First and second gradients of every primitive against difference quotients, and against torch where it
is there.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
import pytest
from hypothesis import given as draw
from hypothesis import settings
from hypothesis import strategies as st
from primitives import (
    ELEMENTWISE,
    REFERENCE,
    STRUCTURED,
    apply_case,
    cases,
    fill,
    given,
    to_numpy,
    torch_numbers,
    value,
)

from engine.autodiff.check import Tolerance, check_gradients
from engine.autodiff.differentiate import differentiate
from engine.core import build as b
from engine.core.dtype import bfloat16, bool_, float32, float64, int64
from engine.core.node import Node
from engine.core.opdef import OPS, Case, make
from engine.devices.evaluate import evaluate

SECOND = Tolerance(eps=1e-5, rtol=1e-4, atol=1e-5)
SMOOTH = [op for op in ELEMENTWISE if OPS[op].gradient is not None and op != "select"]
DOMAIN = {  # of the random operands, where it is not from -3 to 3
    "log": [(0.1, 5)],
    "sqrt": [(0.1, 5)],
    "log1p": [(-0.8, 5)],
    "div": [(-3, 3), (0.3, 4)],
    "pow": [(0.2, 3), (-3, 3)],
    "mod": [(-9, 9), (0.7, 4)],
    "atan2": [(-3, 3), (0.3, 4)],
}
shapes = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3).map(tuple)
seeds = st.integers(0, 10_000)
modes = st.sampled_from(["clamp", "wrap", "zero", "mirror"])


def check(op: str, inputs: list[Node], attrs=()) -> None:
    """Both orders of ``op`` at the values of ``inputs``."""
    arrays = [x.value for x in inputs]

    def record(values):
        leaves = [b.input(x.shape, x.dtype) for x in values]
        for leaf, x in zip(leaves, values, strict=True):
            leaf.value = x
        return leaves, make(op, tuple(leaves), *attrs)

    assert check_gradients(record, arrays, REFERENCE, SECOND, order=2)


@pytest.mark.parametrize("op", SMOOTH)
@draw(shapes, seeds)
@settings(max_examples=12)
def test_elementwise_at_random_operands(op: str, shape, seed) -> None:
    random = np.random.default_rng(seed)
    domain = DOMAIN.get(op, [(-3, 3)] * OPS[op].arity)
    check(op, [given(random.uniform(low, high, shape)) for low, high in domain])


def smooth_samples(op: str) -> list[tuple[float, ...]]:
    """Samples at which value and slope are finite: kinks and poles have tests of their own."""
    samples = []
    for sample in OPS[op].samples:
        if all(map(isfinite, sample)) and max(map(abs, sample)) < 1000 and not is_kink(op, sample):
            samples.append(sample)
    return samples


def is_kink(op: str, sample: tuple[float, ...]) -> bool:
    kinks = {
        "sqrt": lambda x: x < 1e-3,
        "log": lambda x: x < 1e-3,
        "log1p": lambda x: x <= -1,
        "div": lambda x, y: y == 0,
        "max": lambda x, y: x == y,
        "min": lambda x, y: x == y,
        "pow": lambda x, y: x <= 0,
        "exp": lambda x: abs(x) > 30,
        "expm1": lambda x: abs(x) > 30,
        "mod": lambda x, y: x % y == 0,
        "atan2": lambda y, x: y == 0 and x <= 0,
    }
    return op in kinks and bool(kinks[op](*sample))


@pytest.mark.parametrize("op", SMOOTH)
def test_elementwise_at_samples(op: str) -> None:
    samples = smooth_samples(op)
    assert samples
    check(op, [given(np.array(column, float)) for column in zip(*samples, strict=True)])


STRUCTURED_CASES = [
    (op, *case) for op in STRUCTURED if OPS[op].gradient is not None for case in cases(OPS[op])
]


@pytest.mark.parametrize(("op", "name", "case"), STRUCTURED_CASES, ids=str)
def test_structured_primitives_at_samples(op: str, name, case: Case) -> None:
    node = apply_case(op, case)
    ties = op in ("reduce", "scan") and name[0] == "max" and "values" in name  # have tests of their own
    if node.dtype is not float64 or ties:
        return
    check(op, list(node.inputs), node.attrs)


@draw(shapes, st.sampled_from(["sum", "prod", "max", "min"]), seeds, st.data())
@settings(max_examples=40)
def test_reductions_of_random_shapes(shape, kind, seed, data) -> None:
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)) if shape else st.just(set()))))
    if kind in ("max", "min") and 0 in [shape[a] for a in axes]:
        kind = "prod"
    check("reduce", [given(np.random.default_rng(seed).uniform(-2, 2, shape))], (kind, axes))


@draw(shapes.filter(bool), st.sampled_from(["sum", "prod", "max"]), st.booleans(), seeds, st.data())
@settings(max_examples=40)
def test_scans_of_random_shapes(shape, kind, reverse, seed, data) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    check("scan", [given(np.random.default_rng(seed).uniform(-2, 2, shape))], (kind, axis, reverse))


@draw(st.lists(st.integers(0, 2), max_size=1), *[st.integers(0, 3)] * 3)
@settings(max_examples=25)
def test_products_of_random_shapes(batch, m, k, n) -> None:
    check("dot", [given(fill((*batch, m, k), 1)), given(fill((*batch, k, n), 2))])


@draw(shapes, modes, st.integers(1, 2), seeds)
@settings(max_examples=25)
def test_gather_of_random_shapes(source, mode, count, seed) -> None:
    random = np.random.default_rng(seed)
    indices = [given(random.integers(-5, 6, source)) for _ in range(count)]
    check("gather", [given(fill((3, 2, 1)[: count + 1], 1)), *indices], (mode,))


@pytest.mark.parametrize("kind", ["set", "add", "min", "max"])
@draw(
    st.lists(st.sampled_from([0, 1, 3]), max_size=2),
    modes,
    seeds,
)
@settings(max_examples=12)
def test_scatter_of_random_shapes(kind, source, mode, seed) -> None:
    random = np.random.default_rng(seed)
    index = given(random.integers(-4, 6, source))
    values = given(random.uniform(-2, 2, (*source, 2)))
    check("scatter", [given(fill((3, 2), 1)), index, values], (kind, mode))


@draw(st.sampled_from(["pad", "slice", "broadcast", "transpose", "concat"]), shapes, seeds, st.data())
@settings(max_examples=40)
def test_movement_of_random_shapes(op, shape, seed, data) -> None:
    x = given(np.random.default_rng(seed).uniform(-2, 2, shape))
    rank = len(shape)
    if op == "pad":
        amounts = st.tuples(*[st.integers(0, 2)] * rank)
        check(op, [x, given(np.array(1.5))], (data.draw(amounts), data.draw(amounts)))
    elif op == "slice":
        steps = tuple(data.draw(st.sampled_from([-2, -1, 1, 2])) for _ in shape)
        sizes = tuple((size + 1) // 2 for size in shape)
        starts = tuple(max(size - 1, 0) if step < 0 else 0 for size, step in zip(shape, steps, strict=True))
        check(op, [x], (starts, sizes, steps))
    elif op == "broadcast":
        check(op, [x], ((2, *[3 if size == 1 else size for size in shape]),))
    elif op == "transpose":
        check(op, [x], (tuple(data.draw(st.permutations(range(rank)))),))
    elif rank:
        check(op, [x, given(fill((0, *shape[1:]), 1)), x], (0,))


# ---- points where the derivative does not exist: the conventions


def gradients(output: Node, *wrt: Node, seed: Node | None = None):
    nodes = differentiate([output], list(wrt), None if seed is None else [seed])
    return [x.tolist() for x in evaluate(nodes, REFERENCE)]


def f64(*values: float) -> Node:
    return given(np.array(values, float))


def test_equal_operands_of_max_and_min_share_the_gradient() -> None:
    x, y = f64(1, 2, 5), f64(1, 3, 4)
    assert gradients(b.max(x, y), x, y) == [[0.5, 0, 1], [0.5, 1, 0]]
    assert gradients(b.min(x, y), x, y) == [[0.5, 1, 0], [0.5, 0, 1]]


def test_the_largest_elements_share_the_gradient() -> None:
    x = f64(1, 3, 3)
    assert gradients(b.reduce(x, "max", (0,)), x) == [[0, 0.5, 0.5]]
    assert gradients(b.scan(x, "max", 0), x) == [[1, 2, 0]]  # a running maximum: the first that reaches it


def test_many_ties_in_bfloat16_are_counted_exactly() -> None:
    x = given(np.ones(1000), bfloat16)
    (gradient,) = gradients(b.reduce(x, "max", (0,)), x)
    assert set(gradient) == {0.00099945068359375}  # 1/1000 to 8 bits; a count in bfloat16 would stop at 256


def test_abs_has_slope_zero_at_zero_and_sqrt_an_infinite_one() -> None:
    x = f64(0, -0.0)
    assert gradients(b.abs(x), x) == [[0, 0]]
    assert gradients(b.sqrt(f := f64(0)), f) == [[float("inf")]]


def test_rectifier_has_slope_zero_at_zero_and_passes_nan() -> None:
    x = f64(-1, 0, 2, float("nan"))
    zero = b.zeros_like(x)
    rectified = b.select(b.le(x, zero), zero, x)
    assert value(rectified).tolist()[:3] == [0, 0, 2]
    assert np.isnan(value(rectified)[3])
    assert gradients(rectified, x) == [[0, 0, 1, 1]]


def test_powers_at_zero_and_of_negative_bases() -> None:
    x, y = f64(0, 0, 2, -2, -2), f64(0, 2, 0, 3, 0)
    dx, dy = gradients(b.pow(x, y), x, y)
    assert dx == [0, 0, 0, 12, 0]
    assert dy[:2] == [0, 0]
    assert dy[2] == pytest.approx(np.log(2))
    assert all(map(np.isnan, dy[3:]))


def test_the_product_of_elements_with_zeros() -> None:
    for values, wanted in (((0, 3, 5), [15, 0, 0]), ((0, 0, 5), [0, 0, 0]), ((2, 3, 5), [15, 10, 6])):
        x = f64(*values)
        assert gradients(b.reduce(x, "prod", (0,)), x) == [wanted]


def test_remainder_slopes() -> None:
    x, y = f64(7), f64(3)
    assert gradients(b.mod(x, y), x, y) == [[1], [-2]]


def test_overwritten_elements_get_no_gradient() -> None:
    x, values = f64(1, 2, 3), f64(10, 20, 30)
    index = given(np.array([1, 0, 1]))
    result = b.scatter(x, (index,), values, "set", "checked")
    assert value(result).tolist() == [20, 30, 3]
    assert gradients(result, x, values, seed=f64(5, 6, 7)) == [[0, 0, 7], [0, 5, 6]]


def test_extremes_written_by_several_share_the_gradient() -> None:
    x, values = f64(4, 1), f64(4, 4, 0)
    index = given(np.array([0, 0, 1]))
    result = b.scatter(x, (index,), values, "max", "checked")
    dx, dvalues = gradients(result, x, values)
    assert dx == pytest.approx([1 / 3, 1])
    assert dvalues == pytest.approx([1 / 3, 1 / 3, 0])


# ---- masks are pushed outward


@pytest.mark.parametrize(("point", "dtype"), [(100.0, float32), (800.0, float64)], ids=str)
def test_the_branch_not_taken_may_overflow(point, dtype) -> None:
    # where(x <= 0, exp(x), 1 + x)
    x = given(np.array([point, -1.0]), dtype)
    result = b.select(b.le(x, b.zeros_like(x)), b.exp(x), b.add(b.ones_like(x), x))
    (gradient,) = gradients(result, x)
    assert gradient == [1.0, pytest.approx(np.exp(-1.0))]
    (second,) = differentiate(differentiate([result], [x]), [x])
    assert value(second).tolist() == [0.0, pytest.approx(np.exp(-1.0))]


def test_the_branch_not_taken_may_be_undefined() -> None:
    # where(x > 0, sqrt(x), x)
    x = f64(-1, -4, 4)
    result = b.select(b.lt(b.zeros_like(x), x), b.sqrt(x), x)
    assert gradients(result, x) == [[1, 1, 0.25]]


def test_masks_inside_masks() -> None:
    # where(x > 0, where(x < 1, log(x), x), x²), of exp(1000 x): three branches that fail outside theirs
    x = f64(-1, 0.5, 3)
    inner = b.select(b.lt(x, b.ones_like(x)), b.log(b.sqrt(x)), x)
    result = b.select(b.lt(b.zeros_like(x), x), inner, b.mul(x, x))
    assert gradients(result, x) == [[-2, pytest.approx(1.0), 1]]


# ---- shapes of gradients


def test_broadcast_gradients_keep_their_shapes() -> None:
    x, y = given(np.array([[0.0], [1], [2]])), given(np.array([[0.0, 1, 2, 3]]))
    product = b.mul(b.broadcast(x, (3, 4)), b.broadcast(y, (3, 4)))
    assert gradients(b.sum(product, (0, 1)), x, y) == [[[6], [6], [6]], [[3, 3, 3, 3]]]
    scalar = given(np.array(2.0))
    assert gradients(b.broadcast(scalar, (2, 3)), scalar) == [6.0]


def test_an_overlapping_copy() -> None:
    # y = x with y[0:2] = 10 x[1:3]
    x = f64(1, 2, 3)
    moved = b.mul(b.take(x, 0, 1, 2), f64(10, 10))
    y = b.scatter(x, (given(np.array([0, 1])),), moved, "set", "checked")
    assert gradients(y, x) == [[0, 10, 11]]


def test_casts_carry_gradients_between_floats() -> None:
    x = given(np.array([1.5, -0.3]), bfloat16)
    wide = b.cast(x, float32)
    (gradient,) = differentiate([b.sum(b.mul(wide, wide), (0,))], [x])
    assert gradient.dtype is bfloat16
    assert value(gradient).tolist() == [3.0, 2 * value(x)[1]]
    whole = b.cast(b.cast(x, int64), bfloat16)
    assert gradients(b.mul(whole, x), x) == [[1.0, 0.0]]


def test_predicates_stop_gradients() -> None:
    x = f64(1, 2)
    pred = b.lt(x, f64(2, 2))
    assert gradients(b.cast(pred, float64), x) == [[0, 0]]
    assert pred.dtype is bool_


# ---- torch

TORCH_UNARY = ("neg", "abs", "exp", "log", "log1p", "expm1", "sin", "cos", "tanh", "erf", "sqrt")
TORCH_BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "pow": "pow",
    "max": "maximum",
    "min": "minimum",
    "mod": "remainder",
    "atan2": "atan2",
}


@pytest.mark.parametrize("op", [*TORCH_UNARY, *TORCH_BINARY])
def test_torch_has_the_same_gradients(op: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional oracle")
    function = getattr(torch, TORCH_BINARY.get(op, op))
    samples = [s for s in OPS[op].samples if all(map(isfinite, s)) and not is_kink(op, s)]
    if op == "pow":  # torch takes the slope at exponent 0 as the constant 0, so its second gradient is wrong
        samples = [s for s in samples if s[1] != 0]
    columns = [np.array(column, float) for column in zip(*samples, strict=True)]
    theirs = [torch.tensor(column, requires_grad=True) for column in columns]
    first = torch.autograd.grad(function(*theirs).sum(), theirs, create_graph=True)
    ours = [given(column) for column in columns]
    nodes = differentiate([make(op, tuple(ours))], ours)
    for mine, other in zip(evaluate(nodes, REFERENCE), first, strict=True):
        np.testing.assert_allclose(to_numpy(mine), other.detach().numpy(), rtol=1e-12)
    if not any(gradient.requires_grad for gradient in first):
        return
    total = sum(gradient.sum() for gradient in first if gradient.requires_grad)
    second = torch.autograd.grad(total, theirs, allow_unused=True)
    for mine, other in zip(evaluate(differentiate(nodes, ours), REFERENCE), second, strict=True):
        wanted = np.zeros(mine.shape) if other is None else torch_numbers(other)
        np.testing.assert_allclose(to_numpy(mine), wanted, rtol=1e-11, atol=1e-13)


# ---- compositions


def softmax(x: Node) -> Node:
    top = b.detach(b.expand(b.reduce(x, "max", (0,)), (0,), x.shape))
    weights = b.exp(b.sub(x, top))
    return b.div(weights, b.expand(b.sum(weights, (0,)), (0,), x.shape))


def test_softmax_of_minus_infinity_has_no_nan() -> None:
    x = f64(0, float("-inf"), 1)
    last = b.take(softmax(x), 0, 2, 1)
    (gradient,) = gradients(last, x)
    assert gradient == pytest.approx([-0.19661193324148185, 0, 0.19661193324148185])
    assert value(softmax(f64(0, float("-inf"), 0))).tolist() == [0.5, 0, 0.5]


def test_the_mean_over_outer_and_inner_axes_weighs_all_elements_alike() -> None:
    x = given(fill((2, 3, 4), 1))
    mean = b.div(b.sum(x, (0, 2)), b.full((3,), float64, 8))
    (gradient,) = differentiate([mean], [x])
    assert value(gradient).tolist() == np.full((2, 3, 4), 1 / 8).tolist()


def test_products_of_transposed_views() -> None:
    x = given(np.arange(6.0).reshape(2, 3))
    assert value(b.dot(b.swap_last(x), x)).tolist() == [[9, 12, 15], [12, 17, 22], [15, 22, 29]]
    (gradient,) = gradients(b.sum(b.dot(b.swap_last(x), x), (0, 1)), x)
    assert gradient == [[6, 6, 6], [24, 24, 24]]


def test_layer_normalisation_to_second_order() -> None:
    def record(values):
        x = b.input(values[0].shape, float64)
        x.value = values[0]
        shape, count = x.shape, b.full((3,), float64, 4)
        centred = b.sub(x, b.expand(b.div(b.sum(x, (1,)), count), (1,), shape))
        variance = b.div(b.sum(b.mul(centred, centred), (1,)), count)
        scale = b.sqrt(b.add(variance, b.full((3,), float64, 1e-5)))
        return [x], b.tanh(b.div(centred, b.expand(scale, (1,), shape)))

    assert check_gradients(record, [given(fill((3, 4), 2)).value], REFERENCE, SECOND, order=2)
