"""The same expression in NumPy and in torch, where they are installed: plain evaluations, for comparison.

Both tables have the names of the tensor language. What a library doesn't have is left out of its table.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from engine.devices.array import Array
from engine.expression import Call, Expression
from engine.expression.operators import OPERATORS

LIBRARIES = ("numpy", "torch")


class PeerError(Exception):
    """Why a library doesn't evaluate an expression: a sentence for the reader of the table."""


@dataclass(frozen=True)
class Peer:
    """A library ready to evaluate: ``run`` gives the result, and the gradients where they are asked for.

    ``threads`` is None where the library chooses them itself.
    """

    name: str
    threads: int | None
    run: Callable[[], list[Any]]
    to_doubles: Callable[[Any], Any]


def open_peer(
    library: str, expression: Expression, values: Mapping[str, Array], gradients: bool, threads: int
) -> Peer:
    """The expression in a library on these values. Raises PeerError where it can't be done."""
    try:
        module = importlib.import_module(library)
    except ImportError as error:
        raise PeerError("is not installed") from error
    opened = {"numpy": _open_numpy, "torch": _open_torch}[library]
    return opened(module, expression, values, gradients, threads)


def doubles(np: Any, x: Array) -> Any:
    """The values of an array as NumPy's float64."""
    if x.dtype.name != "bfloat16":
        return _numpy_array(np, x).astype(np.float64)
    bits = np.frombuffer(x.tobytes(), dtype="<u2").astype(np.uint32) << 16
    return bits.view(np.float32).astype(np.float64).reshape(x.shape)


def _numpy_array(np: Any, x: Array) -> Any:
    """A view of an array's memory. PeerError for bfloat16, which NumPy doesn't have."""
    if x.dtype.name == "bfloat16":
        raise PeerError("has no bfloat16")
    if x.size == 0:
        return np.empty(x.shape, x.dtype.name)
    flat = np.frombuffer(x.storage.buffer(), dtype=x.dtype.name, count=x.size, offset=x.offset * x.dtype.size)
    return flat.reshape(x.shape)


def _check(expression: Expression, table: Mapping[str, Any]) -> None:
    for term in expression.terms:
        if isinstance(term, Call) and term.function not in table:
            raise PeerError(f"has no {term.function}")


# ---- NumPy


def _open_numpy(
    np: Any, expression: Expression, values: Mapping[str, Array], gradients: bool, threads: int
) -> Peer:
    if gradients:
        raise PeerError("has no gradients")
    table = {**OPERATORS, "matmul": operator.matmul, **_numpy_functions(np)}
    _check(expression, table)
    arrays = {name: _numpy_array(np, x) for name, x in values.items()}

    def run() -> list[Any]:
        with np.errstate(all="ignore"):
            return [expression.evaluate(arrays, table)]

    products = any(isinstance(term, Call) and term.function in ("@", "matmul") for term in expression.terms)
    return Peer(
        f"NumPy {version('numpy')}", None if products else 1, run, lambda x: np.asarray(x, dtype=np.float64)
    )


def _numpy_functions(np: Any) -> dict[str, Callable[..., Any]]:
    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def softmax(x: Any, axis: int) -> Any:
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)

    def log_softmax(x: Any, axis: int) -> Any:
        shifted = x - x.max(axis=axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))

    def logsumexp(x: Any, axis: int, keepdims: bool) -> Any:
        high = x.max(axis=axis, keepdims=True)
        total = np.log(np.exp(x - high).sum(axis=axis, keepdims=True)) + high
        return total if keepdims else total.squeeze(axis)

    def layer_norm(x: Any, weight: Any = 1, bias: Any = 0, *, eps: float) -> Any:
        centre = x - x.mean(axis=-1, keepdims=True)
        return centre / np.sqrt((centre * centre).mean(axis=-1, keepdims=True) + eps) * weight + bias

    def rms_norm(x: Any, weight: Any = 1, *, eps: float) -> Any:
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def causal_mask(x: Any) -> Any:
        return np.where(np.tril(np.ones(x.shape[-2:], bool)), x, -np.inf)

    def transpose(x: Any, axes: Any) -> Any:
        return np.transpose(x, axes) if axes else np.swapaxes(x, -1, -2) if x.ndim > 1 else x

    plain = "abs sign floor ceil rint exp log log1p expm1 tanh sin cos sqrt maximum minimum where clip"
    plain += " isnan isfinite sum prod mean max min any all var std argmax argmin cumsum cumprod"
    casts = ("float32", "float64", "int32", "int64", "uint32", "bool")
    return {
        **{name: getattr(np, name) for name in plain.split()},
        **{name: _numpy_cast(name) for name in casts},
        "atan2": np.arctan2,
        "relu": lambda x: np.maximum(x, 0),
        "sigmoid": sigmoid,
        "silu": lambda x: x * sigmoid(x),
        "softplus": lambda x: np.logaddexp(x, 0),
        "logsigmoid": lambda x: -np.logaddexp(-x, 0),
        "gelu": gelu,
        "softmax": softmax,
        "log_softmax": log_softmax,
        "logsumexp": logsumexp,
        "layer_norm": layer_norm,
        "rms_norm": rms_norm,
        "tril": lambda x, diagonal: np.tril(x, k=diagonal),
        "triu": lambda x, diagonal: np.triu(x, k=diagonal),
        "causal_mask": causal_mask,
        "transpose": transpose,
        "reshape": np.reshape,
    }


def _numpy_cast(name: str) -> Callable[[Any], Any]:
    return lambda x: x.astype(name)


# ---- torch


def _open_torch(
    torch: Any, expression: Expression, values: Mapping[str, Array], gradients: bool, threads: int
) -> Peer:
    table = {**OPERATORS, "matmul": operator.matmul, **_torch_functions(torch)}
    _check(expression, table)
    tensors = {name: _torch_tensor(torch, x) for name, x in values.items()}
    floats = [x for x in tensors.values() if gradients and x.is_floating_point()]
    for x in floats:
        x.requires_grad_()
    torch.set_num_threads(threads)

    def run() -> list[Any]:
        with torch.set_grad_enabled(gradients):
            result: Any = expression.evaluate(tensors, table)
        if not floats:
            return [result]
        return [result, *torch.autograd.grad(result.sum(), floats, allow_unused=True)]

    return Peer(f"torch {torch.__version__}", threads, run, lambda x: x.detach().double().numpy())


def _torch_tensor(torch: Any, x: Array) -> Any:
    if x.size == 0:
        return torch.empty(x.shape, dtype=getattr(torch, x.dtype.name))
    if x.dtype.name == "bfloat16":
        raw = torch.frombuffer(x.storage.buffer(), dtype=torch.int16, count=x.size, offset=x.offset * 2)
        return raw.view(torch.bfloat16).reshape(x.shape)
    dtype = getattr(torch, x.dtype.name)
    raw = torch.frombuffer(x.storage.buffer(), dtype=dtype, count=x.size, offset=x.offset * x.dtype.size)
    return raw.reshape(x.shape)


def _torch_functions(torch: Any) -> dict[str, Callable[..., Any]]:
    functional = torch.nn.functional

    def along(name: str) -> Callable[..., Any]:
        """A reduction along some axes, or all."""
        function = getattr(torch, name)
        return lambda x, axis, keepdims: (
            function(x, dim=axis, keepdim=keepdims) if axis is not None else function(x)
        )

    def variance(name: str) -> Callable[..., Any]:
        function = getattr(torch, name)
        return lambda x, axis, keepdims: function(x, dim=axis, correction=0, keepdim=keepdims)

    def norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float) -> Any:
        return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)

    def rms_norm(x: Any, weight: Any = None, *, eps: float) -> Any:
        return functional.rms_norm(x, x.shape[-1:], weight, eps)

    def causal_mask(x: Any) -> Any:
        return x.masked_fill(torch.ones(x.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)

    def transpose(x: Any, axes: Any) -> Any:
        return x.permute(axes) if axes else x.transpose(-1, -2) if x.ndim > 1 else x

    def scan(name: str) -> Callable[..., Any]:
        function = getattr(torch, name)
        return lambda x, axis: function(x.reshape(-1) if axis is None else x, 0 if axis is None else axis)

    plain = (
        "abs sign floor ceil exp log log1p expm1 tanh sin cos erf sqrt relu sigmoid where clip isnan isfinite"
    )
    casts = ("float32", "float64", "bfloat16", "int32", "int64", "bool")
    return {
        **{name: getattr(torch, name) for name in plain.split()},
        **{name: along(name) for name in ("sum", "mean", "any", "all", "argmax", "argmin")},
        **{name: variance(name) for name in ("var", "std")},
        **{name: scan(name) for name in ("cumsum", "cumprod")},
        **{name: _torch_cast(getattr(torch, name)) for name in casts},
        "max": lambda x, axis, keepdims: torch.amax(x, () if axis is None else axis, keepdims),
        "min": lambda x, axis, keepdims: torch.amin(x, () if axis is None else axis, keepdims),
        "rint": torch.round,
        "atan2": torch.atan2,
        "maximum": lambda a, b: torch.maximum(*_both(torch, a, b)),
        "minimum": lambda a, b: torch.minimum(*_both(torch, a, b)),
        "silu": functional.silu,
        "softplus": functional.softplus,
        "logsigmoid": functional.logsigmoid,
        "gelu": lambda x: functional.gelu(x, approximate="tanh"),
        "gelu_exact": functional.gelu,
        "softmax": torch.softmax,
        "log_softmax": torch.log_softmax,
        "logsumexp": torch.logsumexp,
        "layer_norm": norm,
        "rms_norm": rms_norm,
        "tril": torch.tril,
        "triu": torch.triu,
        "causal_mask": causal_mask,
        "transpose": transpose,
        "reshape": lambda x, shape: x.reshape(shape),
    }


def _both(torch: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Two tensors; a number takes the dtype of the other."""
    if not torch.is_tensor(a):
        return torch.as_tensor(a, dtype=b.dtype), b
    return a, b if torch.is_tensor(b) else torch.as_tensor(b, dtype=a.dtype)


def _torch_cast(dtype: Any) -> Callable[[Any], Any]:
    return lambda x: x.to(dtype)
