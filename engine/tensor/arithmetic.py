"""Elementwise operations on Tensors, with promotion and broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.core.dtype import DType, bool_, float32, int64
from engine.core.shapes import common_shape
from engine.errors import DTypeError
from engine.tensor.cell import Cell, apply, compare, elementwise
from engine.tensor.promotion import agree, as_tensor, cast, constant, spread

if TYPE_CHECKING:
    from engine.tensor.tensor import Tensor

Operand = Any
"""A Tensor, a number, or nested lists of numbers."""
Unary = Callable[["Tensor"], "Tensor"]
Binary = Callable[["Tensor", Operand], "Tensor"]


def to_float(x: Tensor) -> Tensor:
    """Integers and bools as float32; floats as they are."""
    return x if x.dtype.is_float else cast(x, float32)


def _unary(op: str, doc: str, floats: bool = False) -> Unary:
    def function(x: Tensor) -> Tensor:
        return elementwise(op, to_float(x) if floats else x)

    function.__doc__ = doc
    function.__name__ = function.__qualname__ = op
    return function


def _binary(op: str, doc: str, floats: bool = False) -> tuple[Binary, Binary]:
    """The operation and its reflected form."""

    def function(x: Tensor, other: Operand) -> Tensor:
        a, b = agree(x, other)
        if floats and not a.dtype.is_float:
            a, b = cast(a, float32), cast(b, float32)
        return elementwise(op, a, b)

    def reflected(x: Tensor, other: Operand) -> Tensor:
        b, a = agree(x, other)
        if floats and not a.dtype.is_float:
            a, b = cast(a, float32), cast(b, float32)
        return elementwise(op, a, b)

    function.__doc__ = reflected.__doc__ = doc
    function.__name__, reflected.__name__ = op, f"r{op}"
    return function, reflected


def _comparison(op: str, doc: str, swapped: bool = False, negated: bool = False) -> Binary:
    def function(x: Tensor, other: Operand) -> Tensor:
        a, b = agree(x, other)
        result = compare(op, b, a) if swapped else compare(op, a, b)
        return elementwise("not", result) if negated else result

    function.__doc__ = doc
    return function


neg = _unary("neg", "The negative.")
abs_ = _unary("abs", "The magnitude.")
sign = _unary("sign", "-1, 0 or 1; the gradient is 0.")
exp = _unary("exp", "e to the power x.", floats=True)
log = _unary("log", "The natural logarithm; log(0) is -inf.", floats=True)
log1p = _unary("log1p", "log(1 + x), exact near 0.", floats=True)
expm1 = _unary("expm1", "exp(x) - 1, exact near 0.", floats=True)
sin = _unary("sin", "The sine of x radians.", floats=True)
cos = _unary("cos", "The cosine of x radians.", floats=True)
tanh = _unary("tanh", "The hyperbolic tangent.", floats=True)
erf = _unary("erf", "The error function.", floats=True)
sqrt = _unary("sqrt", "The square root; its gradient at 0 is inf.", floats=True)
invert = _unary("not", "Logical for bool, bitwise for integers.")

add, radd = _binary("add", "The sum.")
sub, rsub = _binary("sub", "The difference.")
mul, rmul = _binary("mul", "The product.")
div, rdiv = _binary("div", "The quotient; integers give float32.", floats=True)
floordiv, rfloordiv = _binary("floordiv", "The quotient rounded down; for integers x // 0 is 0.")
mod, rmod = _binary("mod", "The remainder of ``//``: it has the divisor's sign.")
pow_, rpow = _binary("pow", "x to the power of the other operand, in float.", floats=True)
maximum, _ = _binary("max", "The larger of each pair; NaN if either is. A tie shares the gradient.")
minimum, _ = _binary("min", "The smaller of each pair; NaN if either is. A tie shares the gradient.")
atan2, _ = _binary("atan2", "The angle of the point (other, x).", floats=True)
and_, rand_ = _binary("and", "Logical for bool, bitwise for integers.")
or_, ror = _binary("or", "Logical for bool, bitwise for integers.")
xor, rxor = _binary("xor", "Logical for bool, bitwise for integers.")
lshift, rlshift = _binary("shl", "Bits shifted left; 0 from the width on.")
rshift, rrshift = _binary("shr", "Bits shifted right, arithmetic for signed integers.")

lt = _comparison("lt", "x < other.")
le = _comparison("le", "x <= other.")
gt = _comparison("lt", "x > other.", swapped=True)
ge = _comparison("le", "x >= other.", swapped=True)
eq = _comparison("eq", "x == other.")
ne = _comparison("eq", "x != other.", negated=True)


def _rounding(op: str, doc: str) -> Unary:
    def function(x: Tensor) -> Tensor:
        return elementwise(op, x) if x.dtype.is_float else x

    function.__doc__ = doc
    return function


floor = _rounding("floor", "The largest integer not above x.")
rint = _rounding("rint", "The nearest integer, ties to even.")


def ceil(x: Tensor) -> Tensor:
    """The smallest integer not below x."""
    return neg(floor(neg(x))) if x.dtype.is_float else x


def power(x: Tensor, exponent: Operand) -> Tensor:
    """``x ** exponent``, in float; integers to the power of an int that is not negative stay integers."""
    if type(exponent) is int and exponent >= 0 and (exponent in (1, 2, 3) or not x.dtype.is_float):
        return _repeated_product(x if x.dtype is not bool_ else cast(x, int64), exponent)
    return pow_(x, exponent)


def _repeated_product(x: Tensor, exponent: int) -> Tensor:
    """x · x · … by squaring."""
    result: Tensor | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else mul(result, x)
        exponent >>= 1
        x = mul(x, x) if exponent else x
    return constant(1, x.dtype, x.shape) if result is None else result


def astype(x: Tensor, dtype: DType) -> Tensor:
    """The values in another dtype; floats become integers toward zero, saturating, NaN as 0."""
    return cast(x, dtype)


def where(condition: Tensor, a: Operand, b: Operand) -> Tensor:
    """``a`` where the condition holds, else ``b``; all broadcast. No gradient comes from the other side."""
    if condition.dtype is not bool_:
        raise DTypeError(f"the condition is {condition.dtype}; it must be bool: compare with something")
    if isinstance(a, Cell) or not isinstance(b, Cell):
        a, b = agree(as_tensor(a), b)
    else:
        b, a = agree(as_tensor(b), a)
    shape = common_shape(condition.shape, a.shape)
    return apply("select", (spread(condition, shape), spread(a, shape), spread(b, shape)))


def clamp(x: Tensor, low: Operand = None, high: Operand = None) -> Tensor:
    """x, but at least ``low`` and at most ``high``. On a bound the gradient passes; outside it is 0."""
    if low is None and high is None:
        raise ValueError("clamp needs low, high or both")
    result = x
    if low is not None:
        result = where(lt(result, low), low, result)
    if high is not None:
        result = where(gt(result, high), high, result)
    return result


def masked_fill(x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """``value`` where the mask holds, else x."""
    return where(mask, value, x)


def relu(x: Tensor) -> Tensor:
    """max(x, 0); NaN stays NaN; the gradient at 0 is 0."""
    zero = constant(0, x.dtype, x.shape)
    return apply("select", (compare("le", x, zero), zero, x))


def isnan(x: Tensor) -> Tensor:
    return ne(x, x)


def isfinite(x: Tensor) -> Tensor:
    return lt(abs_(x), float("inf")) if x.dtype.is_float else eq(x, x)
