"""grad_check over Tensors: what it accepts, what it finds, and what it says."""

from __future__ import annotations

import pytest

from engine import Tensor, float64, grad_check, int64
from engine.errors import DTypeError, GradientError


def test_right_gradients_pass_to_second_order() -> None:
    x, y = Tensor([[0.5, -1.2], [2.0, 0.3]]), Tensor([1.5, 0.7])
    assert grad_check(lambda x, y: (x * y).tanh() @ x.exp(), [x, y], order=2)


def test_float32_inputs_are_checked_in_float64() -> None:
    seen = []

    def function(x: Tensor) -> Tensor:
        seen.append(x.dtype)
        return x * x

    assert grad_check(function, [Tensor([1e3, 1e-3])])
    assert set(seen) == {float64}


def test_unused_inputs_and_integers_are_allowed() -> None:
    x, unused, index = Tensor([1.0, 2.0, 4.0]), Tensor([7.0]), Tensor([2, 0], dtype=int64)
    assert grad_check(lambda x, unused, index: x[index] * 3.0, [x, unused, index], order=2)
    assert grad_check(lambda x: Tensor([1.0, 2.0], dtype=float64), [x])


def test_a_wrong_gradient_names_input_and_element() -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 0.5])
    with pytest.raises(GradientError, match=r"gradient of input 1, element \(0,\)"):
        grad_check(lambda x, y: x * y * y.detach(), [x, y])


def test_a_gradient_ten_times_too_small_fails_also_where_it_is_tiny() -> None:
    def function(x: Tensor) -> Tensor:
        scaled = x * 1e-4
        return scaled * 0.1 + (scaled * 0.9).detach()

    with pytest.raises(GradientError, match="difference quotient"):
        grad_check(function, [Tensor([1.0])])


def test_a_tensor_alone_is_the_only_input() -> None:
    assert grad_check(lambda x: x * x, Tensor([1.0, 2.0]))


def test_a_function_that_returns_no_tensor_is_an_error() -> None:
    with pytest.raises(DTypeError, match="the function returned float; it must return a Tensor"):
        grad_check(lambda x: 1.0, Tensor([1.0]))  # type: ignore[arg-type, return-value]


def test_the_message_gives_both_numbers_and_the_tolerance_in_words() -> None:
    with pytest.raises(GradientError) as caught:
        grad_check(lambda x: x * x.detach(), Tensor([1.0]))
    assert str(caught.value).endswith("; they differ by more than 1e-07 + 1e-05 times the larger")


def test_tolerances_are_the_callers() -> None:
    def slightly_wrong(x: Tensor) -> Tensor:
        return x * 1.001 - (x * 0.001).detach()

    assert grad_check(slightly_wrong, [Tensor([1.0])], rtol=1e-2)
    with pytest.raises(GradientError):
        grad_check(slightly_wrong, [Tensor([1.0])], rtol=1e-4)
