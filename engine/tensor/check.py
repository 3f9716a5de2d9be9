"""grad_check: whether the gradients of a function of Tensors are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.autodiff.check import USUAL, Tolerance, check_gradients
from engine.core.dtype import float64
from engine.core.node import Node
from engine.devices.array import Array
from engine.devices.device import current_device
from engine.tensor.cell import enable_grad, wrap
from engine.tensor.promotion import cast
from engine.tensor.tensor import Tensor


def grad_check(
    function: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    *,
    eps: float = USUAL.eps,
    rtol: float = USUAL.rtol,
    atol: float = USUAL.atol,
    order: int = 1,
) -> bool:
    """Compares gradients of ``function(*inputs)`` with difference quotients, in float64.

    Float inputs are varied, whether or not they require a gradient; others are passed as they are. Inputs
    that the function does not use have gradient 0. A quotient steps ``eps`` times the element (at least
    ``eps``) to both sides; numbers agree when they differ by at most ``atol`` + ``rtol`` times the larger.
    ``order`` 2 checks gradients of gradients too. Returns True, or raises GradientError naming the input,
    its element, and both numbers.
    """
    arrays = [(cast(x, float64) if x.dtype.is_float else x)._value for x in inputs]

    def record(values: Sequence[Array]) -> tuple[list[Node], Node]:
        cells = [wrap(value, None, value.dtype.is_float) for value in values]
        with enable_grad():
            return [cell.node for cell in cells], function(*cells).node

    return check_gradients(record, arrays, current_device(), Tolerance(eps, rtol, atol), order)
