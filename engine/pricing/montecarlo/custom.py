"""Custom payoffs: what the functions of the payoff language compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.core.dtype import bool_, float64
from engine.pricing.montecarlo.paths import Path
from engine.pricing.payoff_language import path_names, read_payoff
from engine.pricing.spec import products as p
from engine.tensor import Tensor, where
from engine.tensor.promotion import as_tensor


def custom(path: Path, product: p.Custom) -> Tensor:
    """The value of the expression, paid at expiry, [blocks, paths]."""
    spec = path.numbers.spec
    values: dict[str, Any] = {
        name: path.number(f"constant {name}", lambda own, name=name: dict(own.product.constants.pairs)[name])  # type: ignore[misc]
        for name, _ in product.constants.pairs
    }
    for asset, name in enumerate(path_names(spec.market.assets)):
        values[name] = _dates(path, product, asset)
    result = _tensor(read_payoff(spec).evaluate(values, _MEANING)).astype(path.logs[0].dtype)
    blocks, _, paths = path.logs[0].shape
    if result.ndim == 3:  # one number for each path, with its axis of dates kept
        result = result.squeeze(1)
    return path.discount("expiry", lambda own: own.expiry) * result.broadcast_to(blocks, paths)


def _dates(path: Path, product: p.Custom, asset: int) -> Tensor:
    monitoring = product.monitoring
    times = path.times if monitoring.times is None else monitoring.times
    return path.at_times(times, asset, today=monitoring.include_t0)


def _tensor(x: Any) -> Tensor:
    """A number that is written in the payoff has all its digits."""
    return x if isinstance(x, Tensor) else Tensor(float(x), float64)


def _number(x: Any) -> Any:
    """Conditions count as 1 or 0 in arithmetic."""
    return x.astype(float64) if isinstance(x, Tensor) and x.dtype is bool_ else x


def _arithmetic(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: function(*[_number(x) for x in operands])


def _extreme(over: Callable[..., Any], of_two: Callable[[Tensor, Any], Tensor]) -> Callable[..., Any]:
    def function(*operands: Any) -> Any:
        if len(operands) == 1:
            return over(operands[0], 1, True)
        a, b = (_number(x) for x in operands)
        return of_two(b, a) if isinstance(b, Tensor) else of_two(_tensor(a), b)

    return function


_MEANING: dict[str, Callable[..., Any]] = {
    "+": _arithmetic(lambda a, b: a + b),
    "-": _arithmetic(lambda a, b: a - b),
    "*": _arithmetic(lambda a, b: a * b),
    "/": _arithmetic(lambda a, b: a / b),
    "**": _arithmetic(lambda a, b: a**b),
    "-x": _arithmetic(lambda a: -a),
    "<": _arithmetic(lambda a, b: a < b),
    "<=": _arithmetic(lambda a, b: a <= b),
    ">": _arithmetic(lambda a, b: a > b),
    ">=": _arithmetic(lambda a, b: a >= b),
    "&": lambda a, b: as_tensor(a) & b,
    "|": lambda a, b: as_tensor(a) | b,
    "~x": lambda a: ~as_tensor(a),
    "exp": _arithmetic(lambda x: _tensor(x).exp()),
    "log": _arithmetic(lambda x: _tensor(x).log()),
    "sqrt": _arithmetic(lambda x: _tensor(x).sqrt()),
    "abs": _arithmetic(abs),
    "mean": lambda x: x.mean(1, True),
    "sum": lambda x: x.sum(1, True),
    "first": lambda x: x[:, 0:1],
    "last": lambda x: x[:, x.shape[1] - 1 :],
    "max": _extreme(Tensor.max, Tensor.maximum),
    "min": _extreme(Tensor.min, Tensor.minimum),
    "any": lambda x: x.any(1, True),
    "all": lambda x: x.all(1, True),
    "where": lambda condition, a, b: where(as_tensor(condition), _number(a), _number(b)),
}
