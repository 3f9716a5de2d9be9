"""The table of primitives.

Everything else in the engine (softmax, attention, convolution …) is composed of these. A primitive without
samples fails the tests, which are generated from this table.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any, TypeAlias

from engine.autodiff import loops, rules
from engine.core import dtypes, region, shapes
from engine.core.dtype import ALL, FLOATS, INTS, NUMBERS, DType, bool_, float64, int32, int64, uint32
from engine.core.opdef import (
    Attrs,
    Case,
    DTypeRule,
    GradientRule,
    Inputs,
    Kind,
    OpDef,
    RegionRule,
    ShapeRule,
    Values,
    define,
)

BITS = (*INTS, bool_)


def _unmade(inputs: Inputs, attrs: Attrs) -> DType:
    raise TypeError("this leaf is made by its builder in engine.core.build, which is told shape and dtype")


# ---- elementwise primitives: a sample is a tuple of operands, or a plain number where there is one operand

_Row: TypeAlias = tuple[str, tuple[DType, ...], str, int, GradientRule | None, tuple[Any, ...]]

# fmt: off
_ELEMENTWISE: tuple[_Row, ...] = (
    # name, dtypes, C text, cost, gradient rule, samples
    ("neg", NUMBERS, "(-{0})", 1, rules.neg, (-1.5, -0.0, 2, inf, nan)),
    ("abs", NUMBERS, "abs_{t}({0})", 1, rules.abs_, (-1.5, 2, -inf, nan)),
    ("sign", NUMBERS, "sign_{t}({0})", 2, None, (-1.5, 0, -0.0, 2, -inf, nan)),
    ("exp", FLOATS, "k_exp_{t}({0})", 16, rules.exp, (-700, -1, 0, 0.5, 3, 90, -inf, inf, nan)),
    ("log", FLOATS, "k_log_{t}({0})", 16, rules.log, (1e-40, 0.5, 1, 7, 0, -1, inf, nan)),
    ("log1p", FLOATS, "k_log1p_{t}({0})", 18, rules.log1p, (1e-10, -0.5, 0, 3, -1, -2, inf, nan)),
    ("expm1", FLOATS, "k_expm1_{t}({0})", 18, rules.expm1, (1e-10, -0.0, -3, 1, 40, -inf, inf, nan)),
    ("sin", FLOATS, "k_sin_{t}({0})", 20, rules.sin, (0, -0.0, 0.5, -2, 100, 1e6, inf, nan)),
    ("cos", FLOATS, "k_cos_{t}({0})", 20, rules.cos, (0, 0.5, -2, 100, 1e6, inf, nan)),
    ("tanh", FLOATS, "k_tanh_{t}({0})", 16, rules.tanh, (-30, -1, -0.0, 1e-40, 0.6, 5, inf, nan)),
    ("erf", FLOATS, "k_erf_{t}({0})", 20, rules.erf, (-6, -1, -0.0, 1e-5, 0.6, 2, inf, nan)),
    ("sqrt", FLOATS, "sqrt_{t}({0})", 6, rules.sqrt, (0.25, 2, 1e-40, 0, -0.0, -1, inf, nan)),
    ("floor", FLOATS, "floor_{t}({0})", 1, None, (-1.5, -0.0, 0.5, 2, 1e10, inf, nan)),
    ("rint", FLOATS, "rint_{t}({0})", 1, None, (0.5, 1.5, 2.5, -0.5, -1.2, 1e10, inf, nan)),
    ("not", BITS, "(~{0})", 1, None, (0, 1, 5)),
    ("cast", ALL, "cvt_{t}_{u}({0})", 1, rules.cast, (-1.9, 1.9, 0, 3e9, -3e9, inf, nan)),
    ("bitcast", NUMBERS, "bits_{t}_{u}({0})", 1, None, (1, -2.5, 0)),

    ("add", NUMBERS, "({0} + {1})", 1, rules.add, ((1, 2), (-0.0, 0.0), (inf, -inf), (nan, 1))),
    ("sub", NUMBERS, "({0} - {1})", 1, rules.sub, ((1, 2.5), (0.0, 0.0), (inf, inf), (1, nan))),
    ("mul", NUMBERS, "({0} * {1})", 1, rules.mul, ((3, -2.5), (-0.0, 2), (0, inf), (nan, 0))),
    ("div", FLOATS, "({0} / {1})", 4, rules.div, ((3, -2.5), (1, 3), (1, 0), (0, 0), (inf, inf), (1, inf))),
    ("pow", FLOATS, "k_pow_{t}({0}, {1})", 40, rules.pow_,
     ((2, 3), (0.5, -1.5), (-2, 3), (0, 2), (0, 0), (-2, 0.5), (1, nan), (nan, 0), (inf, -1), (0, -1),
      (1.5, 0))),
    ("max", NUMBERS, "max_{t}({0}, {1})", 1, rules.max_,
     ((1, 2), (3, -1), (2, 2), (-0.0, 0.0), (nan, 1), (1, nan), (inf, 1))),
    ("min", NUMBERS, "min_{t}({0}, {1})", 1, rules.min_,
     ((1, 2), (3, -1), (2, 2), (0.0, -0.0), (nan, 1), (1, nan), (-inf, 1))),
    ("floordiv", NUMBERS, "k_floordiv_{t}({0}, {1})", 8, None,
     ((7, 2), (-7, 2), (7, -2), (-1, 3), (5.5, 0.5), (1, inf), (-1, inf), (0, 5), (nan, 1))),
    ("mod", NUMBERS, "k_mod_{t}({0}, {1})", 10, rules.mod,
     ((7, 3), (-1, 3), (1, -3), (5.3, inf), (-1, inf), (5, 0.7), (inf, 2), (nan, 1))),
    ("atan2", FLOATS, "k_atan2_{t}({0}, {1})", 30, rules.atan2,
     ((1, 2), (1, -2), (-1, -2), (0, 1), (-0.0, -1), (0.0, 0.0), (inf, inf), (nan, 1))),
    ("and", BITS, "({0} & {1})", 1, None, ((0, 1), (6, 3), (1, 1))),
    ("or", BITS, "({0} | {1})", 1, None, ((0, 1), (6, 3), (0, 0))),
    ("xor", BITS, "({0} ^ {1})", 1, None, ((0, 1), (6, 3), (1, 1))),
    ("shl", INTS, "k_shl_{t}({0}, {1})", 1, None, ((1, 4), (3, 0), (1, 32), (1, 64))),
    ("shr", INTS, "k_shr_{t}({0}, {1})", 1, None, ((256, 4), (3, 0), (8, 40), (8, 64))),
    ("lt", NUMBERS, "({0} < {1})", 1, None, ((1, 2), (2, 1), (2, 2), (nan, 1), (-0.0, 0.0))),
    ("le", NUMBERS, "({0} <= {1})", 1, None, ((1, 2), (2, 1), (2, 2), (nan, 1), (0.0, -0.0))),
    ("eq", ALL, "({0} == {1})", 1, None, ((1, 2), (2, 2), (nan, nan), (0.0, -0.0))),
    ("select", ALL, "sel_{t}({0}, {1}, {2})", 1, rules.select,
     ((1, 2, 3), (0, 2, 3), (0, 0, 1), (1, 2, nan), (0, inf, -0.0))),
)
# fmt: on
_RESULT: dict[str, DTypeRule] = {  # where it is not the dtype that all operands have
    "cast": dtypes.cast,
    "bitcast": dtypes.bitcast,
    "lt": dtypes.predicate,
    "le": dtypes.predicate,
    "eq": dtypes.predicate,
    "select": dtypes.select,
}


def _define_elementwise(row: _Row) -> None:
    name, accepts, c, cost, gradient, samples = row
    operands = tuple([sample if isinstance(sample, tuple) else (sample,) for sample in samples])
    attrs = ("dtype",) if name in ("cast", "bitcast") else ()
    dtype = _RESULT.get(name, dtypes.same)
    arity = len(operands[0])
    define(OpDef(name, "elementwise", arity, attrs, accepts, shapes.same, dtype, gradient, operands, cost, c))


for _row in _ELEMENTWISE:
    _define_elementwise(_row)


# ---- the others: name, kind, number of inputs, attributes, dtypes, shape, dtype, gradient, cost, samples


def _define(  # noqa: PLR0917  a row of the table
    name: str,
    kind: Kind,
    inputs: int | None,
    attrs: tuple[str, ...],
    accepts: tuple[DType, ...],
    shape: ShapeRule,
    dtype: DTypeRule,
    gradient: GradientRule | RegionRule | None,
    cost: int,
    *samples: Case,
) -> None:
    define(OpDef(name, kind, inputs, attrs, accepts, shape, dtype, gradient, samples, cost))


_OUTSIDE = ("clamp", "wrap", "zero", "mirror")  # the modes that let an index lie outside its axis

# fmt: off
_define("input", "leaf", 0, (), (), shapes.scalar, _unmade, None, 0)
_define("parameter", "leaf", 0, ("name",), (), shapes.scalar, _unmade, None, 0)
_define("constant", "leaf", 0, ("raw",), (), shapes.scalar, _unmade, None, 0)
_define("iota", "leaf", 0, ("shape", "axis", "dtype"), (), shapes.iota, dtypes.last, None, 1,
        Case((), ((2, 3), 1, int64)))
_define("random_bits", "leaf", 3, ("shape",), (uint32,), shapes.random_bits, dtypes.random_bits, None, 30,
        Case((Values((7, 9), uint32), Values(3, uint32), Values(0, uint32)), ((2, 5),)))

_define("reshape", "movement", 1, ("shape",), ALL, shapes.reshape, dtypes.same, rules.reshape, 0,
        Case(((2, 3),), ((3, 2),)), Case(((1, 0),), ((0, 4),)), Case(((),), ((1, 1),)))
_define("transpose", "movement", 1, ("perm",), ALL, shapes.transpose, dtypes.same, rules.transpose, 0,
        Case(((2, 3, 4),), ((2, 0, 1),)), Case(((),), ((),)))
_define("broadcast", "movement", 1, ("shape",), ALL, shapes.broadcast, dtypes.same, rules.broadcast, 0,
        Case(((3, 1),), ((2, 3, 4),)), Case(((),), ((3,),)), Case(((1,),), ((0,),)))
_define("slice", "movement", 1, ("starts", "sizes", "steps"), ALL, shapes.slice_, dtypes.same, rules.slice_,
        0, Case(((5, 4),), ((1, 3), (2, 4), (2, -1))), Case(((7,),), ((6,), (3,), (-3,))),
        Case(((3,),), ((0,), (0,), (1,))))
_define("pad", "movement", 2, ("low", "high"), ALL, shapes.pad, dtypes.same, rules.pad, 1,
        Case(((2, 3), ()), ((1, 0), (0, 2))), Case(((0,), ()), ((2,), (1,))))
_define("concat", "movement", None, ("axis",), ALL, shapes.concat, dtypes.same, rules.concat, 1,
        Case(((2, 3), (2, 1), (2, 0)), (1,)), Case(((2,),), (0,)))

_define("reduce", "reduce", 1, ("kind", "axes"), ALL, shapes.reduce, dtypes.reduce, rules.reduce, 1,
        *(Case(((2, 3, 4),), (kind, (0, 2))) for kind in ("sum", "prod", "max", "min")),
        *(Case(((5,),), (kind, (0,))) for kind in ("sum", "prod", "max", "min")),
        *(Case(((0, 3),), (kind, (0,))) for kind in ("sum", "prod")),
        Case((Values((2.0, 3.0, 3.0), float64),), ("max", (0,))),
        Case((Values((0.0, 3.0, 5.0), float64),), ("prod", (0,))),
        *(Case((Values(((True, False), (True, True)), bool_),), (kind, (1,))) for kind in ("any", "all")))
_define("argreduce", "reduce", 1, ("kind", "axis"), NUMBERS, shapes.argreduce, dtypes.position, None, 1,
        *(Case(((3, 4),), (kind, axis)) for kind in ("max", "min") for axis in (0, 1)),
        *(Case((Values((1.0, nan, 7.0, nan), float64),), (kind, 0)) for kind in ("max", "min")))
_define("scan", "reduce", 1, ("kind", "axis", "reverse"), NUMBERS, shapes.scan, dtypes.reduce, rules.scan, 1,
        *(Case(((3, 4),), (kind, 0, False)) for kind in ("sum", "prod", "max")),
        *(Case(((3, 4),), (kind, 0, True)) for kind in ("sum", "prod", "max")),
        Case((Values((1.0, 3.0, 2.0, 3.0), float64),), ("max", 0, False)),
        Case((Values((2.0, 0.0, 3.0), float64),), ("prod", 0, False)))
_define("dot", "dot", 2, (), NUMBERS, shapes.dot, dtypes.same, rules.dot, 2,
        Case(((2, 3), (3, 4))), Case(((2, 1, 3), (2, 3, 2))), Case(((2, 0), (0, 3))))

_define("gather", "index", None, ("mode",), ALL, shapes.gather, dtypes.gather, rules.gather, 1,
        Case(((3, 2), Values((0, 2, 2, 1), int64)), ("checked",)),
        Case(((3, 2), Values(((2, 0),), int32), Values(((1, 1),), int32)), ("checked",)),
        *(Case(((3, 2), Values((-7, -1, 4, 1), int64)), (mode,)) for mode in _OUTSIDE))
_define("scatter", "index", None, ("kind", "mode"), ALL, shapes.scatter, dtypes.scatter, rules.scatter, 1,
        *(Case(((3, 2), Values((2, 0, 2), int64), (3, 2)), (kind, "checked"))
          for kind in ("set", "add", "min", "max")),
        *(Case(((3,), Values((-7, 1, 4), int64), (3,)), ("add", mode)) for mode in _OUTSIDE),
        *(Case((Values((6, 5), int32), Values((1, 1), int64), Values((3, 12), int32)), (kind, "checked"))
          for kind in ("and", "or", "xor")),
        Case(((3, 2), Values((2, 0), int64), Values((1, 1), int64), (2,)), ("set", "checked")))

_define("detach", "marker", 1, (), ALL, shapes.same, dtypes.same, None, 0, Case(((2, 3),)))
_define("pass_grad", "marker", 1, (), ALL, shapes.same, dtypes.same, rules.same, 0, Case(((2, 3),)))
_define("keep", "marker", 1, (), ALL, shapes.same, dtypes.same, rules.same, 0, Case(((2, 3),)))

_define("loop", "region", None, ("body", "limit", "save"), ALL, region.loop_shape, dtypes.position,
        loops.gradient_of_loop, 0)
_define("cond", "region", None, ("then", "otherwise"), ALL, region.cond_shape, dtypes.truth,
        loops.gradient_of_cond, 0)
_define("item", "item", 1, ("index",), ALL, region.item_shape, region.item_dtype, None, 0)
