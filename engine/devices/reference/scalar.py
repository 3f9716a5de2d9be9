"""The elementwise primitives on Python numbers.

Floats are computed in float64 and rounded by whoever stores the result. Where Python raises, IEEE 754 has a
value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from math import copysign, inf, isinf, isnan, nan
from typing import Any, TypeAlias

from engine.core.dtype import DType, bool_, float64, uint32
from engine.devices.reference.rounding import int_to_f32, rounder

Function: TypeAlias = Callable[..., Any]


def exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return inf


def expm1(x: float) -> float:
    try:
        return math.expm1(x)
    except OverflowError:
        return inf


def log(x: float) -> float:
    if x > 0:
        return math.log(x)
    return -inf if x == 0 else nan


def log1p(x: float) -> float:
    if x > -1:
        return math.log1p(x)
    return -inf if x == -1 else nan


def sin(x: float) -> float:
    return nan if isinf(x) else math.sin(x)


def cos(x: float) -> float:
    return nan if isinf(x) else math.cos(x)


def sqrt(x: float) -> float:
    return nan if x < 0 else math.sqrt(x)


def floor(x: float) -> float:
    return copysign(math.floor(x), x) if math.isfinite(x) else x


def rint(x: float) -> float:
    return copysign(round(x), x) if math.isfinite(x) else x


def sign(x: float) -> float:
    return math.copysign(1.0, x) if x < 0 or x > 0 else x


def sign_int(x: int) -> int:
    return (x > 0) - (x < 0)


def div(a: float, b: float) -> float:
    if b != 0:
        return a / b
    return nan if a == 0 or isnan(a) else copysign(inf, a) * copysign(1.0, b)


def pow_(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return -inf if a < 0 and b % 2 == 1 else inf
    except ValueError:  # a pole at 0, or a negative base
        if a != 0:
            return nan
        return copysign(inf, a) if b % 2 == 1 else inf


def max_(a: float, b: float) -> float:
    if isnan(a) or isnan(b):
        return nan
    if a == b:
        return b if copysign(1.0, a) < 0 else a
    return max(a, b)


def min_(a: float, b: float) -> float:
    if isnan(a) or isnan(b):
        return nan
    if a == b:
        return a if copysign(1.0, a) < 0 else b
    return min(a, b)


def mod(a: float, b: float) -> float:
    """a - b⌊a/b⌋, rounded once: the remainder of the truncated quotient, moved to the sign of ``b``."""
    if b == 0 or isinf(a) or isnan(a) or isnan(b):
        return nan
    rest = math.fmod(a, b)
    if rest == 0:
        return copysign(0.0, b)
    return rest + b if (rest < 0) != (b < 0) else rest


def floordiv(rounded: Callable[[float], float]) -> Function:
    """The integer q for which a - q·b is ``mod``; each step is rounded to the dtype."""

    def floordiv(a: float, b: float) -> float:
        if b == 0:
            return div(a, b)
        if isinf(a) or isnan(a) or isnan(b):
            return nan
        rest = math.fmod(a, b)
        quotient = rounded(div(rounded(a - rest), b))  # an integer but for its rounding
        if rest != 0 and (rest < 0) != (b < 0):
            quotient = rounded(quotient - 1.0)
        if quotient == 0:
            return copysign(0.0, div(a, b))
        whole = floor(quotient)
        return whole + 1.0 if quotient - whole > 0.5 else whole

    return floordiv


def mod_int(a: int, b: int) -> int:
    return a % b if b else 0


def floordiv_int(a: int, b: int) -> int:
    return a // b if b else 0


def shl(bits: int) -> Function:
    return lambda a, b: a << b if 0 <= b < bits else 0


def shr(bits: int) -> Function:
    """Shifts beyond the width leave what the last possible one does: 0, or -1 of a negative number."""
    return lambda a, b: a >> (b if 0 <= b < bits else bits)


def select(pred: bool, a: Any, b: Any) -> Any:
    return a if pred else b


OTHER_BITS = frozenset(
    ("exp", "log", "log1p", "expm1", "sin", "cos", "tanh", "erf", "pow", "atan2", "mod", "floordiv")
)
"""What comes from Python's math for floats; last places may differ from the exactness contract's."""

_ANY: dict[str, Function] = {
    "neg": operator.neg,
    "abs": abs,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "select": select,
}
_FLOAT: dict[str, Function] = {
    "sign": sign,
    "exp": exp,
    "log": log,
    "log1p": log1p,
    "expm1": expm1,
    "sin": sin,
    "cos": cos,
    "tanh": math.tanh,
    "erf": math.erf,
    "sqrt": sqrt,
    "floor": floor,
    "rint": rint,
    "div": div,
    "pow": pow_,
    "max": max_,
    "min": min_,
    "mod": mod,
    "atan2": math.atan2,
}
_INT: dict[str, Function] = {
    "sign": sign_int,
    "max": max,
    "min": min,
    "mod": mod_int,
    "floordiv": floordiv_int,
    "not": operator.invert,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_BOOL: dict[str, Function] = {"not": operator.not_}


def function(op: str, dtype: DType) -> Function:
    """The function of ``op`` for operands of ``dtype``."""
    if op in ("shl", "shr"):
        return {"shl": shl, "shr": shr}[op](8 * dtype.size)
    if op == "floordiv" and dtype.is_float:
        round_ = rounder(dtype)
        return floordiv(lambda x: round_((x,))[0])
    own = {"float": _FLOAT, "int": _INT, "bool": {**_INT, **_BOOL}}[dtype.kind]
    return own.get(op) or _ANY[op]


def cast(old: DType, new: DType) -> Function:
    """The conversion of one number; rounding to a float dtype, and wrapping to an integer, are left to
    the store.
    """
    if new is bool_:
        return bool
    if new.is_float:
        return int_to_f32 if old.is_int and new is not float64 else float
    if not old.is_float:
        return int
    values = 1 << 8 * new.size
    low, high = (0, values - 1) if new is uint32 else (-(values // 2), values // 2 - 1)

    def saturate(x: float) -> int:
        if isnan(x):
            return 0
        if isinf(x):
            return low if x < 0 else high
        return min(max(int(x), low), high)

    return saturate


def combine(op: str, dtype: DType) -> Function:
    """The function that ``reduce``, ``scan`` and ``scatter`` of kind ``op`` combine two numbers with."""
    return function({"sum": "add", "prod": "mul"}.get(op, op), dtype)
