"""The table of primitives is whole: each row has what the devices, the rules and the tests need."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from primitives import CASTS, ELEMENTWISE, STRUCTURED, given

from engine.core import build, shapes
from engine.core.dim import symbol
from engine.core.dtype import bool_, float32, float64, int32, int64, uint32
from engine.core.opdef import OPS, Case, Kind, OpDef, define, make
from engine.errors import DTypeError, ShapeError

ROWS = list(OPS.values())
KEYWORDS = {"not": "not_", "and": "and_", "or": "or_"}
REGIONS = ("loop", "cond", "item")  # tested in test_regions.py and test_loop_gradients.py
NO_GRADIENT = {
    *("input", "parameter", "constant", "iota", "random_bits", "detach"),
    *("sign", "floor", "rint", "floordiv", "not", "and", "or", "xor", "shl", "shr", "lt", "le", "eq"),
    *("bitcast", "argreduce", "item"),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_primitive_has_samples_and_a_builder(row: OpDef) -> None:
    assert row.samples or row.name in ("input", "parameter", "constant", *REGIONS)
    assert callable(getattr(build, KEYWORDS.get(row.name, row.name)))
    assert row.kind in get_args(Kind)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_elementwise_primitives_and_no_others_have_c_text(row: OpDef) -> None:
    if row.kind != "elementwise":
        assert row.c is None
        return
    assert row.c is not None
    assert row.arity is not None
    assert set(re.findall(r"\{(\d)\}", row.c)) == {str(i) for i in range(row.arity)}
    assert all(not isinstance(sample, Case) and len(sample) == row.arity for sample in row.samples)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_primitives_without_gradient_are_the_known_ones(row: OpDef) -> None:
    assert (row.gradient is None) == (row.name in NO_GRADIENT)


def test_each_primitive_has_an_answer_by_numpy() -> None:
    leaves = {"input", "parameter", "constant", "random_bits"}
    assert {*ELEMENTWISE, *STRUCTURED, *CASTS, *REGIONS} | leaves == set(OPS)


def test_a_name_is_defined_once() -> None:
    with pytest.raises(ValueError, match="'add' is defined twice"):
        define(OPS["add"])


# ---- shape rules


def leaf(*shape, dtype=float32):
    return build.input(shape, dtype)


R, C = symbol("R"), symbol("C")


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "expected"),
    [
        ("add", (leaf(R, 3), leaf(R, 3)), (), (R, 3)),
        ("reshape", (leaf(R, 6),), ((R * 2, 3),), (R * 2, 3)),
        ("reshape", (leaf(0, 5),), ((7, 0),), (7, 0)),
        ("transpose", (leaf(R, C, 4),), ((2, 0, 1),), (4, R, C)),
        ("broadcast", (leaf(1, C),), ((R, 2, C),), (R, 2, C)),
        ("slice", (leaf(R, 5),), ((0, 4), (R, 3), (1, -2)), (R, 3)),
        ("pad", (leaf(R, 2), leaf()), ((1, 0), (0, C)), (R + 1, C + 2)),
        ("concat", (leaf(R, 2), leaf(R, C)), (1,), (R, C + 2)),
        ("reduce", (leaf(R, 2, C),), ("sum", (0, 2)), (2,)),
        ("argreduce", (leaf(R, C),), ("max", 1), (R,)),
        ("dot", (leaf(5, R, 3), leaf(5, 3, C)), (), (5, R, C)),
        ("gather", (leaf(R, 4), leaf(C, 7, dtype=int64)), ("clamp",), (C, 7, 4)),
        ("scatter", (leaf(R, 4), leaf(C, dtype=int32), leaf(C, 4)), ("add", "zero"), (R, 4)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_shapes_follow_from_symbolic_sizes(op, inputs, attrs, expected) -> None:
    assert make(op, inputs, *attrs).shape == expected


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        (
            "add",
            (leaf(2, 3), leaf(3)),
            (),
            r"add: operands have shapes \(2, 3\) and \(3,\); they must be equal",
        ),
        ("add", (leaf(R), leaf(1)), (), r"\(R,\) and \(1,\)"),
        ("reshape", (leaf(2, 3),), ((4, 2),), "6 elements are not 8"),
        ("reshape", (leaf(2, 3),), ((-2, -3),), r"size -2 of axis 0 in the shape \(-2, -3\) must not be neg"),
        (
            "broadcast",
            (leaf(),),
            ((2, -3),),
            r"size -3 of axis 1 in the shape \(2, -3\) must",
        ),
        ("iota", (), ((-1,), 0, int64), "must not be negative"),
        ("iota", (), ((2.5,), 0, int64), "size 2.5 of axis 0 must be an integer"),
        (
            "random_bits",
            (leaf(2, dtype=uint32), leaf(dtype=uint32), leaf(dtype=uint32)),
            ((R, -1),),
            r"in the shape \(R, -1\) must not be negative",
        ),
        ("transpose", (leaf(2, 3),), ((0, 0),), "must name each of the 2 axes"),
        ("broadcast", (leaf(2, 3),), ((3,),), "fewer axes"),
        ("broadcast", (leaf(R),), ((3,),), "size R is neither 1 nor 3"),
        (
            "slice",
            (leaf(5),),
            ((3,), (3,), (1,)),
            "axis 0 of \\(5,\\): 3 elements from 3 in steps of 1 leave",
        ),
        ("slice", (leaf(5),), ((1,), (3,), (-1,)), "leave"),
        ("slice", (leaf(5),), ((0,), (1,), (0,)), "the step must not be 0"),
        ("slice", (leaf(5, 5),), ((0,), (1,), (1,)), "must each have 2 entries"),
        ("pad", (leaf(2), leaf()), ((-1,), (0,)), "must not be negative"),
        ("pad", (leaf(2), leaf(1)), ((1,), (0,)), "must be a scalar"),
        ("concat", (leaf(2, 3), leaf(3, 3)), (1,), "may differ only on axis 1"),
        ("concat", (), (0,), "at least one operand"),
        ("reduce", (leaf(2, 3),), ("sum", (1, 0)), "must rise strictly"),
        ("reduce", (leaf(2, 0),), ("max", (1,)), "the max over axis 1 of \\(2, 0\\) does not exist"),
        ("argreduce", (leaf(0),), ("min", 0), "the axis is empty"),
        ("scan", (leaf(2),), ("sum", 1, False), "axis 1 of \\(2,\\) must be from 0 to 0"),
        ("dot", (leaf(2, 3), leaf(2, 3)), (), "inner sizes 3 and 2 must be equal"),
        ("dot", (leaf(4, 2, 3), leaf(5, 3, 2)), (), "batch axes"),
        ("dot", (leaf(3), leaf(3)), (), "at least two"),
        ("gather", (leaf(0, 2), leaf(3, dtype=int64)), ("clamp",), "an indexed axis is empty"),
        (
            "gather",
            (leaf(2), leaf(3, dtype=int64), leaf(3, dtype=int64)),
            ("clamp",),
            "there must be from 1 to 1",
        ),
        ("scatter", (leaf(4, 2), leaf(3, dtype=int64), leaf(3)), ("add", "zero"), r"it must be \(3, 2\)"),
        ("random_bits", (leaf(3, dtype=uint32), *[leaf(dtype=uint32)] * 2), ((2,),), "they must be"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_shapes_that_break_a_rule_name_the_primitive_and_the_rule(op, inputs, attrs, message) -> None:
    with pytest.raises(ShapeError, match=message) as raised:
        make(op, inputs, *attrs)
    assert str(raised.value).startswith(f"{op}: ")


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("add", (leaf(2), leaf(2, dtype=float64)), (), "add: operands are float32 and float64"),
        ("exp", (leaf(2, dtype=int32),), (), "exp does not take int32; it takes float32, float64, bfloat16"),
        ("select", (leaf(2), leaf(2), leaf(2)), (), "the predicate is float32; it must be bool"),
        ("bitcast", (leaf(2),), (int64,), "the bits of float32 cannot be read as int64"),
        ("reduce", (leaf(2, dtype=int32),), ("sum", (0,)), "cast to int64 first"),
        ("reduce", (leaf(2),), ("any", (0,)), "any takes bool, got float32"),
        ("reduce", (leaf(2, dtype=bool_),), ("max", (0,)), "max takes numbers, got bool"),
        ("gather", (leaf(2), leaf(2)), ("clamp",), "indices must be integers, one is float32"),
        (
            "scatter",
            (leaf(2), leaf(2, dtype=int64), leaf(2)),
            ("xor", "clamp"),
            "xor takes integers and bool",
        ),
        (
            "scatter",
            (leaf(2, dtype=bool_), leaf(2, dtype=int64), leaf(2, dtype=bool_)),
            ("add", "clamp"),
            "got bool",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_dtypes_that_break_a_rule_name_the_primitive_and_the_rule(op, inputs, attrs, message) -> None:
    with pytest.raises(DTypeError, match=message):
        make(op, inputs, *attrs)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("reduce", (leaf(2),), ("mean", (0,)), "reduce: kind 'mean' must be one of sum, prod"),
        ("gather", (leaf(2), leaf(2, dtype=int64)), ("reflect",), "mode 'reflect' must be one of clamp"),
    ],
)
def test_unknown_kinds_and_modes_are_named(op, inputs, attrs, message) -> None:
    with pytest.raises(ValueError, match=message):
        make(op, inputs, *attrs)


def test_the_number_of_inputs_is_checked() -> None:
    with pytest.raises(TypeError, match="add takes 2 inputs, got 1"):
        make("add", (given(1.0),))


def test_shapes_are_shown_as_python_shows_tuples() -> None:
    assert [shapes.text(shape) for shape in ((), (2,), (R, 3))] == ["()", "(2,)", "(R, 3)"]
