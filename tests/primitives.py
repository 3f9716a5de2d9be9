"""The table of primitives as test data: nodes from its samples, and NumPy's answer to each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from engine.core.build import input as leaf
from engine.core.dtype import BY_NAME, DType, bfloat16, float64
from engine.core.node import Node
from engine.core.opdef import Case, OpDef, Values, make
from engine.devices.array import Array
from engine.devices.evaluate import evaluate
from engine.devices.reference import ReferenceDevice

NumPyArray = np.ndarray[Any, Any]
REFERENCE = ReferenceDevice()

# ---- between NumPy and arrays


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """bfloat16 values are shown as float32."""
    return np.dtype("float32" if dtype is bfloat16 else dtype.name)


def to_array(x: Any, dtype: DType | None = None) -> Array:
    x = np.asarray(x)
    dtype = dtype or BY_NAME[x.dtype.name]
    return Array.from_list(x.ravel().tolist(), x.shape, dtype)


def to_numpy(x: Array) -> NumPyArray:
    return np.array(x.tolist(), dtype=numpy_dtype(x.dtype)).reshape(x.shape)


def torch_numbers(x: Any) -> NumPyArray:
    """A torch tensor's values. The sum makes memory of a tensor of zeros that has none."""
    x = x.detach()
    return np.asarray((x + x.new_zeros(x.shape)).numpy())


def given(x: Any, dtype: DType | None = None) -> Node:
    """A leaf that holds ``x``."""
    array = to_array(x, dtype)
    node = leaf(array.shape, array.dtype)
    node.value = array
    return node


def value(node: Node, device: Any = REFERENCE) -> NumPyArray:
    return to_numpy(evaluate([node], device)[0])


# ---- samples


def fill(shape: tuple[int, ...], seed: int) -> NumPyArray:
    """Distinct real numbers away from zero, of both signs, in an order that follows no axis."""
    count = int(np.prod(shape))
    order = np.random.default_rng(seed).permutation(count)
    return (0.4 + 0.13 * order * np.where(order % 2, 1, -1) + 0.01 * seed).reshape(shape)


def operand(sample: tuple[int, ...] | Values, dtype: DType, seed: int) -> Node:
    if isinstance(sample, Values):
        return given(np.array(sample.data, numpy_dtype(sample.dtype)), sample.dtype)
    return given(fill(sample, seed), dtype)


def cases(row: OpDef) -> Iterator[tuple[tuple[Any, ...], Case]]:
    """The samples of a row that is not elementwise, each with an id for the test's name."""
    for sample in row.samples:
        assert isinstance(sample, Case)
        yield (*sample.attrs, *(s if isinstance(s, tuple) else "values" for s in sample.operands)), sample


def apply_case(op: str, case: Case, dtype: DType = float64) -> Node:
    """The primitive on the case's operands; real operands are of ``dtype``."""
    return make(op, tuple([operand(s, dtype, i) for i, s in enumerate(case.operands)]), *case.attrs)


# ---- NumPy's answers

INDEX = {
    "clamp": lambda i, n: np.clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "mirror": lambda i, n: np.where(i % (2 * n) < n, i % (2 * n), 2 * n - 1 - i % (2 * n)),
    "zero": lambda i, n: i,
    "checked": lambda i, n: i,
}


def numpy_gather(x: NumPyArray, *indices: NumPyArray, attrs: tuple[str]) -> NumPyArray:
    mode = attrs[0]
    inside = np.ones(indices[0].shape, bool)
    placed = []
    for i, n in zip(indices, x.shape, strict=False):
        j = INDEX[mode](i.astype(np.int64), n)
        inside &= (j >= 0) & (j < n)
        placed.append(np.clip(j, 0, max(n - 1, 0)))
    shape = inside.shape + x.shape[len(indices) :]
    result = np.array(x[tuple(placed)]) if inside.size and x.size else np.zeros(shape, x.dtype)
    result[~inside] = 0
    return result


SCATTER = {
    "set": lambda a, b: b,
    "add": lambda a, b: a + b,
    "min": np.minimum,
    "max": np.maximum,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def numpy_scatter(x: NumPyArray, *rest: NumPyArray, attrs: tuple[str, str]) -> NumPyArray:
    kind, mode = attrs
    *indices, values = rest
    out = x.copy()
    for place in np.ndindex(indices[0].shape):
        at = [int(INDEX[mode](i[place].astype(np.int64), n)) for i, n in zip(indices, x.shape, strict=False)]
        if all(0 <= j < n for j, n in zip(at, x.shape, strict=False)):
            out[tuple(at)] = SCATTER[kind](out[tuple(at)], values[place])
    return out


def numpy_pad(x: NumPyArray, fill_value: NumPyArray, attrs: Any) -> NumPyArray:
    return np.pad(x, list(zip(*attrs, strict=True)), constant_values=fill_value) if x.ndim else x


def numpy_slice(x: NumPyArray, attrs: Any) -> NumPyArray:
    for axis, (start, size, step) in enumerate(zip(*attrs, strict=True)):
        x = np.take(x, start + step * np.arange(size), axis)
    return x


def numpy_scan(x: NumPyArray, attrs: Any) -> NumPyArray:
    kind, axis, reverse = attrs
    scan = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate}[kind]
    return np.flip(scan(np.flip(x, axis), axis), axis) if reverse else scan(x, axis)


def numpy_iota(attrs: Any) -> NumPyArray:
    shape, axis, dtype = attrs
    return np.indices(shape)[axis].astype(dtype.name)


def _reduce(x: NumPyArray, attrs: Any) -> NumPyArray:
    return np.asarray(getattr(np, attrs[0])(x, axis=attrs[1]))


STRUCTURED: dict[str, Callable[..., NumPyArray]] = {
    "iota": numpy_iota,
    "reshape": lambda x, attrs: x.reshape(attrs[0]),
    "transpose": lambda x, attrs: x.transpose(attrs[0]),
    "broadcast": lambda x, attrs: np.broadcast_to(x, attrs[0]),
    "slice": numpy_slice,
    "pad": numpy_pad,
    "concat": lambda *xs, attrs: np.concatenate(xs, attrs[0]),
    "reduce": _reduce,
    "argreduce": lambda x, attrs: np.asarray(getattr(np, "arg" + attrs[0])(x, axis=attrs[1])),
    "scan": numpy_scan,
    "dot": lambda a, b, attrs: a @ b,
    "gather": numpy_gather,
    "scatter": numpy_scatter,
    "detach": lambda x, attrs: x,
    "pass_grad": lambda x, attrs: x,
    "keep": lambda x, attrs: x,
}


def by_sign(choose: Callable[..., Any], a: NumPyArray, b: NumPyArray) -> NumPyArray:
    """maximum or minimum, which leave open which zero wins: here -0 < +0."""
    result = choose(a, b)
    if result.dtype.kind != "f":
        return np.asarray(result)
    negative = np.signbit(a) & np.signbit(b) if choose is np.maximum else np.signbit(a) | np.signbit(b)
    return np.where((a == 0) & (b == 0), np.where(negative, -0.0, 0.0).astype(result.dtype), result)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),  # NumPy's loses the sign of zero
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sqrt": np.sqrt,
    "floor": np.floor,
    "rint": np.rint,
    "not": np.invert,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "max": partial(by_sign, np.maximum),
    "min": partial(by_sign, np.minimum),
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "atan2": np.arctan2,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "select": lambda p, a, b: np.where(p.astype(bool), a, b),
}
CASTS = ("cast", "bitcast")  # elementwise too, but with a dtype to go to: they have tests of their own
TRANSCENDENTAL = ("exp", "log", "log1p", "expm1", "sin", "cos", "tanh", "erf", "pow", "atan2")
