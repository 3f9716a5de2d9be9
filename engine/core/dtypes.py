"""Dtype rules of the primitives: from the inputs' dtypes and the attributes to the dtype of the result."""

from __future__ import annotations

from engine.core.dtype import ALL, INTS, DType, bool_, int64, uint32
from engine.core.opdef import Attrs, Inputs
from engine.errors import DTypeError

_OBJECTS = ["bool_" if dtype is bool_ else dtype.name for dtype in ALL]


def require(dtype: object) -> DType:
    """``dtype`` itself. Raises DTypeError for what is no dtype, such as a name."""
    if not isinstance(dtype, DType):
        raise DTypeError(f"dtype is {dtype!r}; it must be one of engine's {', '.join(_OBJECTS)}")
    return dtype


def same(inputs: Inputs, attrs: Attrs) -> DType:
    """All operands have one dtype, which is the result's."""
    dtype = inputs[0].dtype
    for other in inputs[1:]:
        if other.dtype is not dtype:
            raise DTypeError(
                f"operands are {dtype} and {other.dtype}; cast one of them, dtypes must be equal"
            )
    return dtype


def predicate(inputs: Inputs, attrs: Attrs) -> DType:
    same(inputs, attrs)
    return bool_


def select(inputs: Inputs, attrs: Attrs) -> DType:
    if inputs[0].dtype is not bool_:
        raise DTypeError(f"the predicate is {inputs[0].dtype}; it must be bool")
    return same(inputs[1:], attrs)


def cast(inputs: Inputs, attrs: Attrs) -> DType:
    return require(attrs[0])


def bitcast(inputs: Inputs, attrs: Attrs) -> DType:
    old, new = inputs[0].dtype, cast(inputs, attrs)
    if old.size != new.size or bool_ in (old, new):
        raise DTypeError(f"the bits of {old} cannot be read as {new}: both must be numbers of one size")
    return new


def last(inputs: Inputs, attrs: Attrs) -> DType:
    """The dtype is the last attribute (iota)."""
    return require(attrs[-1])


def random_bits(inputs: Inputs, attrs: Attrs) -> DType:
    for operand in inputs:
        if operand.dtype is not uint32:
            raise DTypeError(f"key, ordinal and turn must be uint32, one is {operand.dtype}")
    return uint32


def reduce(inputs: Inputs, attrs: Attrs) -> DType:
    """Integers are summed and multiplied as int64 only: cast first, so that no sum wraps unseen."""
    dtype, kind = inputs[0].dtype, attrs[0]
    if kind in ("any", "all"):
        if dtype is not bool_:
            raise DTypeError(f"{kind} takes bool, got {dtype}; compare with 0 first")
    elif dtype is bool_:
        raise DTypeError(f"{kind} takes numbers, got bool; cast to int64 first")
    elif kind in ("sum", "prod") and dtype.is_int and dtype is not int64:
        raise DTypeError(f"{kind} takes floats and int64, got {dtype}; cast to int64 first")
    return dtype


def position(inputs: Inputs, attrs: Attrs) -> DType:
    return int64


def truth(inputs: Inputs, attrs: Attrs) -> DType:
    return bool_


def gather(inputs: Inputs, attrs: Attrs) -> DType:
    _check_indices(inputs[1:])
    return inputs[0].dtype


def scatter(inputs: Inputs, attrs: Attrs) -> DType:
    _check_indices(inputs[1:-1])
    dtype, kind = inputs[0].dtype, attrs[0]
    if kind in ("and", "or", "xor") and dtype.is_float:
        raise DTypeError(f"{kind} takes integers and bool, got {dtype}")
    if kind in ("add", "min", "max") and dtype is bool_:
        raise DTypeError(f"{kind} takes numbers, got bool")
    return same((inputs[0], inputs[-1]), attrs)


def _check_indices(indices: Inputs) -> None:
    for index in indices:
        if index.dtype not in INTS:
            raise DTypeError(f"indices must be integers, one is {index.dtype}")
