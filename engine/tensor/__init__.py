"""The eager front end: Tensors that compute at once and remember how."""

from engine.tensor.arithmetic import where
from engine.tensor.cell import enable_grad, no_grad
from engine.tensor.creation import arange, eye, full, linspace, ones, ones_like, zeros, zeros_like
from engine.tensor.functional import one_hot
from engine.tensor.movement import cat, stack
from engine.tensor.tensor import Tensor

__all__ = [
    "Tensor",
    "arange",
    "cat",
    "enable_grad",
    "eye",
    "full",
    "linspace",
    "no_grad",
    "one_hot",
    "ones",
    "ones_like",
    "stack",
    "where",
    "zeros",
    "zeros_like",
]
