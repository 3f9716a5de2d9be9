"""Tensors made from nothing but sizes and numbers."""

from __future__ import annotations

from math import ceil

from engine.core.dtype import DType, float32, int64
from engine.tensor.cell import apply
from engine.tensor.promotion import cast
from engine.tensor.tensor import Tensor

zeros = Tensor.zeros
ones = Tensor.ones
full = Tensor.full


def zeros_like(x: Tensor) -> Tensor:
    return Tensor.zeros(x.shape, dtype=x.dtype)


def ones_like(x: Tensor) -> Tensor:
    return Tensor.ones(x.shape, dtype=x.dtype)


def arange(start: float, stop: float | None = None, step: float = 1, dtype: DType | None = None) -> Tensor:
    """start, start + step, … before stop; ``arange(n)`` counts from 0. int64 for ints, else float32."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("step is 0; it must move towards stop")
    whole = all(isinstance(value, int) for value in (start, stop, step))
    count = max(len(range(int(start), int(stop), int(step))) if whole else ceil((stop - start) / step), 0)
    counted = apply("iota", (), (count,), 0, int64)
    if whole:
        return cast(counted * int(step) + int(start), dtype or int64)
    return cast(counted, dtype or float32) * step + start


def linspace(start: float, stop: float, count: int, dtype: DType = float32) -> Tensor:
    """``count`` numbers from ``start`` to ``stop``, both included, equally far apart."""
    if count < 0:
        raise ValueError(f"count is {count}; it must not be negative")
    values = [start + (stop - start) * i / max(count - 1, 1) for i in range(count)]
    return Tensor([*values[:-1], stop] if count > 1 else values, dtype)


def eye(rows: int, columns: int | None = None, dtype: DType = float32) -> Tensor:
    """Ones on the diagonal, zeros elsewhere."""
    shape = (rows, rows if columns is None else columns)
    return cast(apply("iota", (), shape, 0, int64) == apply("iota", (), shape, 1, int64), dtype)


__all__ = ["arange", "eye", "full", "linspace", "ones", "ones_like", "zeros", "zeros_like"]
