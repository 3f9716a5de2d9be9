"""Losses: means over all elements, exact at the extremes."""

from __future__ import annotations

from typing import Any

from engine.core.dtype import FLOATS, INTS, bfloat16, float32
from engine.core.shapes import text
from engine.errors import DTypeError, ShapeError
from engine.nn.module import Module
from engine.tensor import Tensor, where
from engine.tensor.functional import pick
from engine.tensor.promotion import as_tensor


def _same_shape(prediction: Tensor, values: Any) -> Tensor:
    target = as_tensor(values)
    if target.shape != prediction.shape:
        raise ShapeError(
            f"predictions have shape {text(prediction.shape)} and targets {text(target.shape)}; "
            "they must be equal"
        )
    return target


class MSELoss(Module):
    """The mean of (prediction - target)²."""

    def forward(self, prediction: Tensor, target: Any) -> Tensor:
        distance = prediction - _same_shape(prediction, target)
        return (distance * distance).mean()


class BCELoss(Module):
    """The mean of -(t log p + (1-t) log(1-p)); a term of weight 0 counts 0, so p = t gives 0 everywhere."""

    def forward(self, prediction: Tensor, target: Any) -> Tensor:
        target = _same_shape(prediction, target).astype(prediction.dtype)
        on = where(target == 0, 0.0, target * prediction.log())
        off = where(target == 1, 0.0, (1.0 - target) * (-prediction).log1p())
        return -(on + off).mean()


class CrossEntropyLoss(Module):
    """The mean of -log softmax(logits)[target] over the rows.

    Rows whose target is ``ignore_index`` do not count. ``label_smoothing`` spreads that share of the target
    evenly over all classes. ``weight`` (C,) weighs rows by their class, and the mean is the weighted one.
    """

    def __init__(
        self, ignore_index: int | None = None, label_smoothing: float = 0.0, weight: Tensor | None = None
    ) -> None:
        if not 0.0 <= label_smoothing <= 1.0:
            raise ValueError(f"label_smoothing is {label_smoothing}; it must be from 0 to 1")
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.weight = weight

    def forward(self, logits: Tensor, targets: Any) -> Tensor:
        """Logits (…, C) and as many integer targets, whatever their shape. IndexError names a bad target."""
        targets = as_tensor(targets)
        if targets.dtype not in INTS:
            raise DTypeError(f"targets are {targets.dtype}; they must be integers (class numbers)")
        if logits.dtype not in FLOATS or not logits.shape:
            raise DTypeError(f"logits are {logits.dtype} of shape {text(logits.shape)}; give floats (…, C)")
        classes = logits.shape[-1]
        rows = logits.reshape(logits.numel() // classes if classes else 0, classes)
        if targets.numel() != rows.shape[0]:
            raise ShapeError(
                f"{targets.numel()} targets for logits of shape {text(logits.shape)}, "
                f"which hold {rows.shape[0]} rows; there must be one target a row"
            )
        wide = rows.astype(float32) if rows.dtype is bfloat16 else rows
        return self._mean(wide, targets.flatten()).astype(logits.dtype)

    def _mean(self, rows: Tensor, targets: Tensor) -> Tensor:
        shifted = rows - rows.detach().max(-1, keepdims=True)
        total = shifted.exp().sum(-1).log()
        if self.ignore_index is None and self.weight is None and self.label_smoothing == 0.0:
            return (total - pick(shifted, targets)).mean()
        counted = Tensor.ones(targets.shape, dtype=rows.dtype)
        if self.ignore_index is not None:
            ignored = targets == self.ignore_index
            targets = where(ignored, 0, targets)
            counted = where(ignored, 0.0, counted)
        losses = total - pick(shifted, targets)
        if self.label_smoothing:
            even = total - shifted.mean(-1)
            losses = losses * (1.0 - self.label_smoothing) + even * self.label_smoothing
        if self.weight is not None:
            counted = counted * self.weight.astype(rows.dtype)[targets]
        return where(counted == 0, 0.0, losses * counted).sum() / counted.sum()
