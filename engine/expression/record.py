"""What the functions of the tensor language do: an expression becomes Tensors, recorded or computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.core.dtype import ALL, DType
from engine.expression.language import Expression
from engine.expression.operators import OPERATORS
from engine.tensor import Tensor, arithmetic, functional, movement, reductions


def tensor_of(expression: Expression, values: Mapping[str, Tensor]) -> Tensor:
    """The value of an expression that reads at least one name."""
    result = expression.evaluate(values, OPERATIONS)
    assert isinstance(result, Tensor)
    return result


def _either(function: Callable[[Tensor, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
    """A commutative function whose first operand may be the number."""
    return lambda a, b: function(a, b) if isinstance(a, Tensor) else function(b, a)


def _clip(x: Tensor, low: Any, high: Any) -> Tensor:
    return arithmetic.clamp(x, low, high)


def _transpose(x: Tensor, axes: tuple[int, ...] | None) -> Tensor:
    return movement.transpose(x) if axes is None else movement.permute(x, axes)


def _reshape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return movement.reshape(x, shape)


def _caster(dtype: DType) -> Callable[[Tensor], Tensor]:
    return lambda x: x.astype(dtype)


OPERATIONS: dict[str, Callable[..., Any]] = {
    **OPERATORS,
    "@": movement.matmul,
    "abs": arithmetic.abs_,
    "sign": arithmetic.sign,
    "floor": arithmetic.floor,
    "ceil": arithmetic.ceil,
    "rint": arithmetic.rint,
    "exp": arithmetic.exp,
    "log": arithmetic.log,
    "log1p": arithmetic.log1p,
    "expm1": arithmetic.expm1,
    "tanh": arithmetic.tanh,
    "sin": arithmetic.sin,
    "cos": arithmetic.cos,
    "erf": arithmetic.erf,
    "sqrt": arithmetic.sqrt,
    "relu": arithmetic.relu,
    "sigmoid": functional.sigmoid,
    "silu": functional.silu,
    "softplus": functional.softplus,
    "logsigmoid": functional.logsigmoid,
    "gelu": functional.gelu,
    "gelu_exact": functional.gelu_exact,
    "maximum": _either(arithmetic.maximum),
    "minimum": _either(arithmetic.minimum),
    "atan2": arithmetic.atan2,
    "where": arithmetic.where,
    "clip": _clip,
    "isnan": arithmetic.isnan,
    "isfinite": arithmetic.isfinite,
    "sum": reductions.sum_,
    "prod": reductions.prod,
    "mean": reductions.mean,
    "max": reductions.max_,
    "min": reductions.min_,
    "any": reductions.any_,
    "all": reductions.all_,
    "var": reductions.var,
    "std": reductions.std,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "cumsum": reductions.cumsum,
    "cumprod": reductions.cumprod,
    "softmax": functional.softmax,
    "log_softmax": functional.log_softmax,
    "logsumexp": functional.logsumexp,
    "layer_norm": functional.layernorm,
    "rms_norm": functional.rmsnorm,
    "tril": functional.tril,
    "triu": functional.triu,
    "causal_mask": functional.causal_mask,
    "matmul": movement.matmul,
    "transpose": _transpose,
    "reshape": _reshape,
    **{dtype.name: _caster(dtype) for dtype in ALL},
}
