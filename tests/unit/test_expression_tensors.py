"""The tensor language: what is inferred is what is computed; every function has a meaning and a price."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import Graph
from engine.core.dtype import ALL, float32, float64, int64
from engine.expression import Expression, ExpressionError, parse
from engine.expression.record import OPERATIONS, tensor_of
from engine.expression.tensors import FUNCTIONS, Kind, price

SHAPES = [(), (1,), (3,), (2, 3), (1, 3), (2, 1), (0,), (0, 3), (2, 0), (4, 2, 3), (3, 2), (1, 1)]
KINDS = st.builds(Kind, st.sampled_from(SHAPES), st.sampled_from(ALL))
VALUES = {
    int: st.integers(-3, 3).map(str),
    float: st.just("0.001"),
    bool: st.booleans().map(str),
    tuple: st.lists(st.integers(-2, 3), max_size=3).map(lambda items: f"({''.join(f'{i},' for i in items)})"),
}


@st.composite
def calls(draw: Any) -> str:
    """One call of any function, with any operands and options, whether or not they fit."""
    name = draw(st.sampled_from(list(FUNCTIONS)))
    function = FUNCTIONS[name]
    count = draw(st.integers(*function.operands))
    operands = [draw(st.sampled_from(["a", "b", "c", "2", "0.5"])) for _ in range(count)]
    if not name.isidentifier():
        return name[0] + operands[0] if count == 1 else f" {name} ".join(operands)
    options = [
        f"{option}={draw(VALUES[draw(st.sampled_from(row.kinds))])}"
        for option, row in function.options.items()
        if draw(st.booleans())
    ]
    return f"{name}({', '.join(operands + options)})"


def inferred(expression: Expression, kinds: dict[str, Kind]) -> Kind | None:
    try:
        found = expression.infer(kinds, FUNCTIONS)
    except ExpressionError:
        return None
    assert price(expression, found, gradients=True).nbytes >= 0
    assert isinstance(found[-1], Kind)
    return found[-1]


def computed(expression: Expression, kinds: dict[str, Kind]) -> Kind | None:
    values = {name: engine.zeros(*kind.shape, dtype=kind.dtype) for name, kind in kinds.items()}
    try:
        result = tensor_of(expression, values)
    except Exception:
        return None
    return Kind(result.shape, result.dtype)


@settings(max_examples=400, deadline=None)
@given(calls(), st.tuples(KINDS, KINDS, KINDS))
def test_what_is_inferred_is_what_comes_out(text: str, three: tuple[Kind, Kind, Kind]) -> None:
    kinds = dict(zip("abc", three, strict=True))
    try:
        expression = parse(text, kinds, FUNCTIONS)
    except ExpressionError:
        return
    if not expression.names:
        return
    kind = inferred(expression, kinds)
    if kind is not None:  # axes are checked also where nothing is there, which Tensors let pass
        assert computed(expression, kinds) == kind


def test_every_function_has_a_meaning() -> None:
    assert set(OPERATIONS) == set(FUNCTIONS)


def test_an_expression_is_recorded_with_its_kinds() -> None:
    kinds = {"x": Kind((5, 8), float32), "w": Kind((8, 3), float32), "b": Kind((3,), float64)}
    expression = parse("softmax(relu(x @ w + b), axis=-1)", kinds, FUNCTIONS)
    graph = Graph()
    with graph:
        result = tensor_of(expression, {n: graph.input(n, k.shape, k.dtype) for n, k in kinds.items()})
    last = expression.infer(kinds, FUNCTIONS)[-1]
    assert Kind(result.shape, result.dtype) == last == Kind((5, 3), float64)


@pytest.mark.parametrize(
    ("text", "position", "rule"),
    [
        ("a + relu(a @ b)", 9, "cannot multiply"),
        ("sum(a, axis=2)", 0, "axis 2 is out of range"),
        ("1 + exp(2)", 4, "must be a tensor"),
        ("~a", 0, "float32 is not taken"),
        ("where(a, a, 0)", 0, "the condition is float32"),
        ("max(e)", 0, "does not exist"),
        ("i + 3000000000000000000000", 4, "too large"),
        ("reshape(a, shape=(-1, -1))", 0, "one whole size"),
        ("reshape(a, shape=(7,))", 0, "must stay"),
        ("transpose(a, axes=(0, 0))", 0, "once"),
        ("a + e", 0, "do not broadcast"),
        ("tril(e)", 0, "no triangle"),
        ("layer_norm(a, e)", 0, "of its last axis"),
    ],
)
def test_what_does_not_fit_is_refused_at_its_call(text: str, position: int, rule: str) -> None:
    kinds = {
        "a": Kind((4, 3), float32),
        "b": Kind((5, 2), float32),
        "e": Kind((0,), float32),
        "i": Kind((2,), int64),
    }
    with pytest.raises(ExpressionError, match=rule) as caught:
        parse(text, kinds, FUNCTIONS).infer(kinds, FUNCTIONS)
    assert caught.value.position == position


def test_work_is_priced_before_anything_is_there() -> None:
    huge = Kind((2**20, 2**20), float32)
    expression = parse("a @ a + 1", {"a": huge}, FUNCTIONS)
    found = expression.infer({"a": huge}, FUNCTIONS)
    assert price(expression, found, gradients=False).flops > 2 * 2**60
    assert price(expression, found, gradients=False).nbytes > 2 * 2**42
