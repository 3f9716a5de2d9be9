"""Statistics that run along a path: a value of each date, and how those of all dates become one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import NamedTuple, Protocol

from engine.pricing.montecarlo.numbers import Getter, Getters
from engine.tensor import Tensor


class Bridge(NamedTuple):
    """Steps in which something is normal: where it begins and ends, what variance it gathers in between, what
    of the asset it is, and the asset of it.
    """

    before: Tensor
    after: Tensor
    variance: Tensor
    of: Callable[[Tensor], Tensor]
    asset: Callable[[Tensor], Tensor]


class Dates(Protocol):
    """One date or all of them: the logarithm of what moves there and at the date before, and the variance
    that it gathers between the two; the asset, and its logarithm at both, dividends to come included.
    """

    @property
    def log(self) -> Tensor: ...
    @property
    def before(self) -> Tensor: ...
    @property
    def spot(self) -> Tensor: ...
    @property
    def seen(self) -> Tensor: ...
    @property
    def seen_before(self) -> Tensor: ...
    @property
    def variance(self) -> Tensor: ...
    @property
    def bridge(self) -> Bridge: ...

    def number(self, name: str, get: Getter) -> Tensor:
        """A number of the contract."""
        ...

    def column(self, name: str, get: Getters) -> Tensor:
        """Numbers of the dates."""
        ...


@dataclass(frozen=True, slots=True)
class _Way:
    start: float
    step: Callable[[Tensor, Tensor], Tensor]
    whole: Callable[[Tensor], Tensor]


class How(Enum):
    """How the values of dates become one: date by date from ``start``, or along axis 1 of all of them."""

    SUM = _Way(0.0, lambda total, x: total + x, lambda x: x.sum(1))
    PRODUCT = _Way(1.0, lambda total, x: total * x, lambda x: x.prod(1))
    MOST = _Way(-inf, lambda most, x: most.maximum(x), lambda x: x.max(1))
    LEAST = _Way(inf, lambda least, x: least.minimum(x), lambda x: x.min(1))


@dataclass(frozen=True, slots=True)
class Fold:
    """``of`` is elementwise. Folds of one name are the same."""

    name: str
    of: Callable[[Dates], Tensor]
    how: How
