"""grad_check: whether the gradients of a function of Tensors are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.autodiff.check import USUAL, Tolerance, check_gradients
from engine.core.dtype import float64
from engine.core.node import Node
from engine.devices.array import Array
from engine.devices.device import current_device
from engine.errors import DTypeError
from engine.tensor.cell import enable_grad, wrap
from engine.tensor.promotion import as_tensor, cast
from engine.tensor.tensor import Tensor


def grad_check(
    function: Callable[..., Tensor],
    inputs: Tensor | Sequence[Tensor],
    *,
    eps: float = USUAL.eps,
    rtol: float = USUAL.rtol,
    atol: float = USUAL.atol,
    order: int = 1,
) -> bool:
    """Compares gradients of ``function(*inputs)`` with difference quotients, in float64.

    A Tensor alone stands for the only input.
    Float inputs are varied, whether or not they require a gradient; others are passed as they are. Inputs
    that the function does not use have gradient 0. A quotient steps ``eps`` times the element (at least
    ``eps``) to both sides; numbers agree when they differ by at most ``atol`` + ``rtol`` times the larger.
    ``order`` 2 checks gradients of gradients too. Returns True, or raises GradientError naming the input,
    its element, and both numbers.
    """
    given = [as_tensor(x) for x in ([inputs] if isinstance(inputs, Tensor) else inputs)]
    arrays = [(cast(x, float64) if x.dtype.is_float else x)._value for x in given]

    def record(values: Sequence[Array]) -> tuple[list[Node], Node]:
        cells = [wrap(value, None, value.dtype.is_float) for value in values]
        with enable_grad():
            result = function(*cells)
        if not isinstance(result, Tensor):
            raise DTypeError(f"the function returned {type(result).__name__}; it must return a Tensor")
        return [cell.node for cell in cells], result.node

    return check_gradients(record, arrays, current_device(), Tolerance(eps, rtol, atol), order)
