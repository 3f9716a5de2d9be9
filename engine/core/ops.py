"""The table of primitives.

Everything else in the engine (softmax, attention, convolution …) is composed of these. A primitive without
samples fails the tests, which are generated from this table.
"""

from __future__ import annotations

from math import inf, nan

from engine.autodiff import rules
from engine.core import dtypes, shapes
from engine.core.dtype import ALL, FLOATS, INTS, NUMBERS, DType, bool_, float64, int32, int64, uint32
from engine.core.opdef import (
    Attrs,
    Case,
    DTypeRule,
    GradientRule,
    Inputs,
    Kind,
    OpDef,
    ShapeRule,
    Values,
    define,
)

BITS = (*INTS, bool_)


def _unmade(inputs: Inputs, attrs: Attrs) -> DType:
    raise TypeError("this leaf is made by its builder in engine.core.build, which is told shape and dtype")


def _leaf(
    name: str,
    attrs: tuple[str, ...],
    shape: ShapeRule,
    dtype: DTypeRule,
    *samples: Case,
    inputs: int = 0,
    accepts: tuple[DType, ...] = (),
) -> None:
    define(OpDef(name, "leaf", inputs, attrs, accepts, shape, dtype, None, samples))


def _elementwise(
    name: str,
    accepts: tuple[DType, ...],
    c: str,
    cost: int,
    gradient: GradientRule | None,
    *samples: tuple[float, ...],
    dtype: DTypeRule = dtypes.same,
    attrs: tuple[str, ...] = (),
) -> None:
    arity = len(samples[0])
    define(OpDef(name, "elementwise", arity, attrs, accepts, shapes.same, dtype, gradient, samples, cost, c))


def _each(*values: float) -> tuple[tuple[float, ...], ...]:
    return tuple((value,) for value in values)


# ---- leaves

_leaf("input", (), shapes.scalar, _unmade)
_leaf("parameter", ("name",), shapes.scalar, _unmade)
_leaf("constant", ("raw",), shapes.scalar, _unmade)
_leaf("iota", ("shape", "axis", "dtype"), shapes.iota, dtypes.last, Case((), ((2, 3), 1, int64)))
_leaf(
    "random_bits",
    ("shape",),
    shapes.random_bits,
    dtypes.random_bits,
    Case((Values((7, 9), uint32), Values(3, uint32)), ((2, 5),)),
    inputs=2,
    accepts=(uint32,),
)

# ---- elementwise: name, dtypes, C text, cost, gradient rule, samples

_elementwise("neg", NUMBERS, "(-{0})", 1, rules.neg, *_each(-1.5, -0.0, 2, inf, nan))
_elementwise("abs", NUMBERS, "abs_{t}({0})", 1, rules.abs_, *_each(-1.5, 2, -inf, nan))
_elementwise("sign", NUMBERS, "sign_{t}({0})", 2, None, *_each(-1.5, 0, -0.0, 2, -inf, nan))
_elementwise("exp", FLOATS, "k_exp_{t}({0})", 16, rules.exp, *_each(-700, -1, 0, 0.5, 3, 90, -inf, inf, nan))
_elementwise("log", FLOATS, "k_log_{t}({0})", 16, rules.log, *_each(1e-40, 0.5, 1, 7, 0, -1, inf, nan))
_elementwise(
    "log1p", FLOATS, "k_log1p_{t}({0})", 18, rules.log1p, *_each(1e-10, -0.5, 0, 3, -1, -2, inf, nan)
)
_elementwise(
    "expm1", FLOATS, "k_expm1_{t}({0})", 18, rules.expm1, *_each(1e-10, -0.0, -3, 1, 40, -inf, inf, nan)
)
_elementwise("sin", FLOATS, "k_sin_{t}({0})", 20, rules.sin, *_each(0, -0.0, 0.5, -2, 100, 1e6, inf, nan))
_elementwise("cos", FLOATS, "k_cos_{t}({0})", 20, rules.cos, *_each(0, 0.5, -2, 100, 1e6, inf, nan))
_elementwise(
    "tanh", FLOATS, "k_tanh_{t}({0})", 16, rules.tanh, *_each(-30, -1, -0.0, 1e-40, 0.6, 5, inf, nan)
)
_elementwise("erf", FLOATS, "k_erf_{t}({0})", 20, rules.erf, *_each(-6, -1, -0.0, 1e-5, 0.6, 2, inf, nan))
_elementwise("sqrt", FLOATS, "sqrt_{t}({0})", 6, rules.sqrt, *_each(0.25, 2, 1e-40, 0, -0.0, -1, inf, nan))
_elementwise("floor", FLOATS, "floor_{t}({0})", 1, None, *_each(-1.5, -0.0, 0.5, 2, 1e10, inf, nan))
_elementwise("rint", FLOATS, "rint_{t}({0})", 1, None, *_each(0.5, 1.5, 2.5, -0.5, -1.2, 1e10, inf, nan))
_elementwise("not", BITS, "(~{0})", 1, None, *_each(0, 1, 5))

_elementwise("add", NUMBERS, "({0} + {1})", 1, rules.add, (1, 2), (-0.0, 0.0), (inf, -inf), (nan, 1))
_elementwise("sub", NUMBERS, "({0} - {1})", 1, rules.sub, (1, 2.5), (0.0, 0.0), (inf, inf), (1, nan))
_elementwise("mul", NUMBERS, "({0} * {1})", 1, rules.mul, (3, -2.5), (-0.0, 2), (0, inf), (nan, 0))
_elementwise(
    "div", FLOATS, "({0} / {1})", 4, rules.div, (3, -2.5), (1, 3), (1, 0), (0, 0), (inf, inf), (1, inf)
)
_elementwise(
    *("pow", FLOATS, "k_pow_{t}({0}, {1})", 40, rules.pow_),
    *(
        (2, 3),
        (0.5, -1.5),
        (-2, 3),
        (0, 2),
        (0, 0),
        (-2, 0.5),
        (1, nan),
        (nan, 0),
        (inf, -1),
        (0, -1),
        (1.5, 0),
    ),
)
_elementwise(
    *("max", NUMBERS, "max_{t}({0}, {1})", 1, rules.max_),
    *((1, 2), (3, -1), (2, 2), (-0.0, 0.0), (nan, 1), (1, nan), (inf, 1)),
)
_elementwise(
    *("min", NUMBERS, "min_{t}({0}, {1})", 1, rules.min_),
    *((1, 2), (3, -1), (2, 2), (0.0, -0.0), (nan, 1), (1, nan), (-inf, 1)),
)
_elementwise(
    *("floordiv", NUMBERS, "k_floordiv_{t}({0}, {1})", 8, None),
    *((7, 2), (-7, 2), (7, -2), (-1, 3), (5.5, 0.5), (1, inf), (-1, inf), (0, 5), (nan, 1)),
)
_elementwise(
    *("mod", NUMBERS, "k_mod_{t}({0}, {1})", 10, rules.mod),
    *((7, 3), (-1, 3), (1, -3), (5.3, inf), (-1, inf), (5, 0.7), (inf, 2), (nan, 1)),
)
_elementwise(
    *("atan2", FLOATS, "k_atan2_{t}({0}, {1})", 30, rules.atan2),
    *((1, 2), (1, -2), (-1, -2), (0, 1), (-0.0, -1), (0.0, 0.0), (inf, inf), (nan, 1)),
)
_elementwise("and", BITS, "({0} & {1})", 1, None, (0, 1), (6, 3), (1, 1))
_elementwise("or", BITS, "({0} | {1})", 1, None, (0, 1), (6, 3), (0, 0))
_elementwise("xor", BITS, "({0} ^ {1})", 1, None, (0, 1), (6, 3), (1, 1))
_elementwise("shl", INTS, "k_shl_{t}({0}, {1})", 1, None, (1, 4), (3, 0), (1, 32), (1, 64))
_elementwise("shr", INTS, "k_shr_{t}({0}, {1})", 1, None, (256, 4), (3, 0), (8, 40), (8, 64))
_elementwise(
    *("lt", NUMBERS, "({0} < {1})", 1, None),
    *((1, 2), (2, 1), (2, 2), (nan, 1), (-0.0, 0.0)),
    dtype=dtypes.predicate,
)
_elementwise(
    *("le", NUMBERS, "({0} <= {1})", 1, None),
    *((1, 2), (2, 1), (2, 2), (nan, 1), (0.0, -0.0)),
    dtype=dtypes.predicate,
)
_elementwise(
    "eq", ALL, "({0} == {1})", 1, None, (1, 2), (2, 2), (nan, nan), (0.0, -0.0), dtype=dtypes.predicate
)
_elementwise(
    *("select", ALL, "sel_{t}({0}, {1}, {2})", 1, rules.select),
    *((1, 2, 3), (0, 2, 3), (0, 0, 1), (1, 2, nan), (0, inf, -0.0)),
    dtype=dtypes.select,
)
_elementwise(
    *("cast", ALL, "cvt_{t}_{u}({0})", 1, rules.cast),
    *_each(-1.9, 1.9, 0, 3e9, -3e9, inf, nan),
    dtype=dtypes.cast,
    attrs=("dtype",),
)
_elementwise(
    *("bitcast", NUMBERS, "bits_{t}_{u}({0})", 1, None),
    *_each(1, -2.5, 0),
    dtype=dtypes.bitcast,
    attrs=("dtype",),
)


# ---- the rest: name, kind, number of inputs, attributes, dtypes, shape, dtype, gradient, cost, samples


def _define(  # noqa: PLR0917  a row of the table
    name: str,
    kind: Kind,
    inputs: int | None,
    attrs: tuple[str, ...],
    accepts: tuple[DType, ...],
    shape: ShapeRule,
    dtype: DTypeRule,
    gradient: GradientRule | None,
    cost: int,
    *samples: Case,
) -> None:
    define(OpDef(name, kind, inputs, attrs, accepts, shape, dtype, gradient, samples, cost))


_define(
    *("reshape", "movement", 1, ("shape",), ALL, shapes.reshape, dtypes.same, rules.reshape, 0),
    *(Case(((2, 3),), ((3, 2),)), Case(((1, 0),), ((0, 4),)), Case(((),), ((1, 1),))),
)
_define(
    *("transpose", "movement", 1, ("perm",), ALL, shapes.transpose, dtypes.same, rules.transpose, 0),
    *(Case(((2, 3, 4),), ((2, 0, 1),)), Case(((),), ((),))),
)
_define(
    *("broadcast", "movement", 1, ("shape",), ALL, shapes.broadcast, dtypes.same, rules.broadcast, 0),
    *(Case(((3, 1),), ((2, 3, 4),)), Case(((),), ((3,),)), Case(((1,),), ((0,),))),
)
_define(
    *("slice", "movement", 1, ("starts", "sizes", "steps"), ALL, shapes.slice_, dtypes.same, rules.slice_, 0),
    *(
        Case(((5, 4),), ((1, 3), (2, 4), (2, -1))),
        Case(((7,),), ((6,), (3,), (-3,))),
        Case(((3,),), ((0,), (0,), (1,))),
    ),
)
_define(
    *("pad", "movement", 2, ("low", "high"), ALL, shapes.pad, dtypes.same, rules.pad, 1),
    *(Case(((2, 3), ()), ((1, 0), (0, 2))), Case(((0,), ()), ((2,), (1,)))),
)
_define(
    *("concat", "movement", None, ("axis",), ALL, shapes.concat, dtypes.same, rules.concat, 1),
    *(Case(((2, 3), (2, 1), (2, 0)), (1,)), Case(((2,),), (0,))),
)
_define(
    *("reduce", "reduce", 1, ("kind", "axes"), ALL, shapes.reduce, dtypes.reduce, rules.reduce, 1),
    *(Case(((2, 3, 4),), (kind, (0, 2))) for kind in ("sum", "prod", "max", "min")),
    *(Case(((5,),), (kind, (0,))) for kind in ("sum", "prod", "max", "min")),
    *(Case(((0, 3),), (kind, (0,))) for kind in ("sum", "prod")),
    Case((Values((2.0, 3.0, 3.0), float64),), ("max", (0,))),
    Case((Values((0.0, 3.0, 5.0), float64),), ("prod", (0,))),
    *(Case((Values(((True, False), (True, True)), bool_),), (kind, (1,))) for kind in ("any", "all")),
)
_define(
    *("argreduce", "reduce", 1, ("kind", "axis"), NUMBERS, shapes.argreduce, dtypes.position, None, 1),
    *(Case(((3, 4),), (kind, axis)) for kind in ("max", "min") for axis in (0, 1)),
    *(Case((Values((1.0, nan, 7.0, nan), float64),), (kind, 0)) for kind in ("max", "min")),
)
_define(
    *("scan", "reduce", 1, ("kind", "axis", "reverse"), NUMBERS, shapes.scan, dtypes.reduce, rules.scan, 1),
    *(Case(((3, 4),), (kind, 0, reverse)) for kind in ("sum", "prod", "max") for reverse in (False, True)),
    Case((Values((1.0, 3.0, 2.0, 3.0), float64),), ("max", 0, False)),
    Case((Values((2.0, 0.0, 3.0), float64),), ("prod", 0, False)),
)
_define(
    *("dot", "dot", 2, (), NUMBERS, shapes.dot, dtypes.same, rules.dot, 2),
    *(Case((a, b)) for a, b in (((2, 3), (3, 4)), ((2, 1, 3), (2, 3, 2)), ((2, 0), (0, 3)))),
)
_define(
    *("gather", "index", None, ("mode",), ALL, shapes.gather, dtypes.gather, rules.gather, 1),
    *(Case(((3, 2), Values((0, 2, 2, 1), int64)), (mode,)) for mode in ("checked",)),
    *(Case(((3, 2), Values((-7, -1, 4, 1), int64)), (mode,)) for mode in ("clamp", "wrap", "zero", "mirror")),
    Case(((3, 2), Values(((2, 0),), int32), Values(((1, 1),), int32)), ("checked",)),
)
_define(
    *("scatter", "index", None, ("kind", "mode"), ALL, shapes.scatter, dtypes.scatter, rules.scatter, 1),
    *(
        Case(((3, 2), Values((2, 0, 2), int64), (3, 2)), (kind, "checked"))
        for kind in ("set", "add", "min", "max")
    ),
    *(
        Case(((3,), Values((-7, 1, 4), int64), (3,)), ("add", mode))
        for mode in ("clamp", "wrap", "zero", "mirror")
    ),
    *(
        Case((Values((6, 5), int32), Values((1, 1), int64), Values((3, 12), int32)), (kind, "checked"))
        for kind in ("and", "or", "xor")
    ),
    Case(((3, 2), Values((2, 0), int64), Values((1, 1), int64), (2,)), ("set", "checked")),
)
for _name, _rule in (("detach", None), ("pass_grad", rules.same), ("keep", rules.same)):
    _define(*(_name, "marker", 1, (), ALL, shapes.same, dtypes.same, _rule, 0), Case(((2, 3),)))
