"""What a Tensor is: dtypes, rebinding, history, errors, exports."""

from __future__ import annotations

import copy
import math
import operator
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import engine
from engine import (
    Tensor,
    bfloat16,
    bool_,
    enable_grad,
    float32,
    float64,
    int32,
    int64,
    no_grad,
    uint32,
)
from engine.core.dtype import ALL, DType
from engine.errors import DTypeError, GradientError, ShapeError


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (1.5, float32, ()),
        (3, int64, ()),
        (True, bool_, ()),
        ([1, 2.0], float32, (2,)),
        ([], float32, (0,)),
        ([[1, 2]], int64, (1, 2)),
        ([[], []], float32, (2, 0)),
        ([True, 1], int64, (2,)),
    ],
)
def test_python_data_has_a_dtype_and_a_shape(data: Any, dtype: DType, shape: tuple[int, ...]) -> None:
    tensor = Tensor(data)
    assert tensor.dtype is dtype
    assert tensor.shape == shape


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (float32, float64, float64),
        (int64, float32, float32),
        (bfloat16, float32, float32),
        (uint32, int32, int64),
        (int32, int64, int64),
        (bool_, int32, int32),
        (bool_, bool_, bool_),
        (int64, bfloat16, bfloat16),
    ],
)
def test_two_tensors_promote(left: DType, right: DType, expected: DType) -> None:
    operation = operator.or_ if expected is bool_ else operator.mul
    assert operation(Tensor([1], left), Tensor([1], right)).dtype is expected
    assert operation(Tensor([1], right), Tensor([1], left)).dtype is expected


@pytest.mark.parametrize("dtype", [dtype for dtype in ALL if dtype is not bool_])
def test_python_numbers_are_weak(dtype: DType) -> None:
    x = Tensor([1, 2], dtype)
    assert (x + 1).dtype is dtype
    assert (1 + x).dtype is dtype
    assert (x + 1.5).dtype is (dtype if dtype.is_float else float32)
    assert (x + True).dtype is dtype


def test_a_number_that_the_dtype_cannot_hold_is_an_error() -> None:
    with pytest.raises(ValueError, match="3000000000 is outside the range of int32"):
        Tensor([1], int32) + 3_000_000_000
    with pytest.raises(ValueError, match="outside the range of int32"):
        Tensor([2**31], int32)


def test_dividing_integers_gives_float32_and_their_sum_is_int64() -> None:
    assert (Tensor([1], int64) / Tensor([2], int64)).dtype is float32
    assert Tensor([2**31 - 1, 1], int32).sum().item() == 2**31
    assert Tensor([True] * 300).sum().item() == 300


def test_negative_zero_and_nan_survive_as_scalars() -> None:
    x = Tensor([1.0])
    assert math.copysign(1.0, (x * 0.0).item()) == 1.0
    assert math.copysign(1.0, (x * -0.0).item()) == -1.0
    assert math.copysign(1.0, (x * 0.0).item()) == 1.0
    assert math.isnan((x * math.nan).item())


def test_shape_errors_name_both_shapes_and_the_rule() -> None:
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(4,\) do not broadcast: sizes 3 and 4 differ"):
        Tensor.zeros(2, 3) + Tensor.zeros(4)
    with pytest.raises(ShapeError, match=r"cannot multiply \(2, 3\) by \(2, 3\)"):
        Tensor.zeros(2, 3) @ Tensor.zeros(2, 3)
    with pytest.raises(ShapeError, match=r"6 elements are not 4"):
        Tensor.zeros(2, 3).reshape(2, 2)
    with pytest.raises(ShapeError, match="-1 must stand for one whole size"):
        Tensor.zeros(2, 3).reshape(4, -1)
    with pytest.raises(ShapeError, match="max of nothing"):
        Tensor([]).max()


def test_dtype_errors_say_what_is_taken() -> None:
    with pytest.raises(DTypeError, match="cannot make a tensor of dict"):
        Tensor({})
    with pytest.raises(DTypeError, match="only float tensors can require"):
        Tensor([1], requires_grad=True)
    with pytest.raises(DTypeError, match="not take float32"):
        ~Tensor([1.0])


@pytest.mark.parametrize("bad", ["int8", "float32", float, 4])
def test_a_dtype_that_is_none_is_refused_wherever_one_is_taken(bad: Any) -> None:
    makers: list[Callable[[], Any]] = [
        lambda: Tensor([300], dtype=bad),
        lambda: Tensor(Tensor([1.0]), dtype=bad),
        lambda: Tensor([1.0]).astype(bad),
        lambda: engine.zeros(2, dtype=bad),
        lambda: engine.full(2, 1.0, dtype=bad),
        lambda: engine.arange(3, dtype=bad),
        lambda: engine.linspace(0, 1, 3, dtype=bad),
        lambda: engine.eye(2, dtype=bad),
        lambda: engine.rand(2, dtype=bad),
        lambda: engine.randn(2, dtype=bad),
    ]
    for make in makers:
        with pytest.raises(
            DTypeError, match=f"dtype is {re.escape(repr(bad))}; it must be one of engine's float32, .* bool_"
        ):
            make()


def test_a_list_that_holds_itself_is_refused() -> None:
    data: list[Any] = []
    data += [data, data]
    with pytest.raises(ValueError, match="holds itself"):
        Tensor(data)


def test_ranges_are_rows_and_iterators_are_refused() -> None:
    assert Tensor(range(3)).tolist() == [0, 1, 2]
    assert Tensor([range(2), (5, 6)]).tolist() == [[0, 1], [5, 6]]
    assert Tensor(range(0)).shape == (0,)
    with pytest.raises(DTypeError, match=r"cannot make a tensor of generator; .* \(list\(\) makes one"):
        Tensor(number for number in range(3))


def test_a_clone_is_a_value_of_its_own_that_passes_the_gradient() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    twin = x.clone()
    assert twin.requires_grad and not twin.is_leaf
    (twin * twin).sum().backward()
    assert x.grad is not None
    assert (x.grad.tolist(), twin.grad) == ([2.0, 4.0], None)
    changed = x.clone()
    changed[0] = 9.0
    assert (x.tolist(), changed.tolist()) == ([1.0, 2.0], [9.0, 2.0])
    with no_grad():
        assert not x.clone().requires_grad


def test_a_format_applies_to_the_only_element() -> None:
    assert f"{Tensor(2.345):.2f} {Tensor([[7]]):03d}" == "2.35 007"
    assert f"{Tensor([1.0, 2.0])}" == "Tensor([1.0, 2.0])"
    with pytest.raises(TypeError, match=r"format '.2f' takes one element; a tensor of shape \(2,\) has 2"):
        format(Tensor([1.0, 2.0]), ".2f")


def test_the_truth_of_several_elements_is_an_error() -> None:
    assert bool(Tensor([2.0]))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(Tensor([1.0, 0.0]))
    with pytest.raises(ValueError, match="exactly one"):
        Tensor([1.0, 0.0]).item()


def test_indexing_gives_a_value_and_writing_rebinds() -> None:
    x = Tensor([1.0, 2.0, 3.0])
    row, same = x[0:2], x
    x[0] = 9.0
    assert row.tolist() == [1.0, 2.0]
    assert same.tolist() == [9.0, 2.0, 3.0]
    y = x
    y += 1
    assert x.tolist() == [10.0, 3.0, 4.0]


def test_writing_keeps_the_gradient_right() -> None:
    x = Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = x * 1.0
    y[0:2] = x[1:3] * 10.0
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 10.0, 11.0, 1.0]


def test_the_last_of_several_values_for_one_element_wins() -> None:
    x = Tensor([0.0, 0.0])
    x[[1, 1, 1]] = Tensor([1.0, 2.0, 3.0])
    assert x.tolist() == [0.0, 3.0]


@pytest.mark.parametrize("change", ["x += 1", "x[0] = 1.0", "x *= x", "x.assign(x + 1)"])
def test_a_leaf_that_requires_a_gradient_changes_only_without_recording(change: str) -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GradientError, match="no_grad"):
        exec(change, {"x": x})
    with no_grad():
        exec(change, {"x": x})
    assert x.requires_grad
    assert x.is_leaf


def test_older_graphs_keep_their_values_when_a_leaf_is_rebound() -> None:
    x = Tensor([2.0], requires_grad=True)
    y = x * x
    with no_grad():
        x *= 10.0
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0]


def test_no_history_without_need() -> None:
    x = Tensor([1.0], requires_grad=True)
    with no_grad():
        assert not (x * 2).requires_grad
        with enable_grad():
            assert (x * 2).requires_grad
    assert not (x > 0).requires_grad
    assert not x.detach().requires_grad
    assert not (Tensor([1.0]) * 2).requires_grad

    @no_grad()
    def double(value: Tensor) -> Tensor:
        return value * 2

    assert not double(x).requires_grad


def test_a_result_cannot_stop_requiring_a_gradient() -> None:
    y = Tensor([1.0], requires_grad=True) * 2
    with pytest.raises(GradientError, match="detach"):
        y.requires_grad = False


def test_repr_is_short_and_says_what_is_unusual() -> None:
    assert repr(Tensor([[1.0, 2.5]])) == "Tensor([[1.0, 2.5]])"
    assert repr(Tensor([1, 2], int32)) == "Tensor([1, 2], dtype=int32)"
    assert repr(Tensor(1.0, requires_grad=True)) == "Tensor(1.0, requires_grad=True)"
    assert len(repr(Tensor.zeros(1000, 1000))) < 400


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (1, 0, 2)])
def test_pickle_and_copies_keep_value_dtype_and_choice(dtype: DType, shape: tuple[int, ...]) -> None:
    x = Tensor.ones(shape, dtype=dtype).fresh(dtype.is_float)
    for again in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert again.dtype is dtype
        assert again.shape == shape
        assert again.tolist() == x.tolist()
        assert again.requires_grad == dtype.is_float


def test_exports_are_read_only_and_in_row_major_order() -> None:
    x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)).T
    array = np.asarray(x)
    assert array.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert not array.flags.writeable
    assert x.data.readonly
    assert x.data.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert np.asarray(Tensor([1.5], bfloat16)).tolist() == [1.5]


@pytest.mark.parametrize("code", ["float32", "float64", "int32", "int64", "uint32", "bool"])
def test_arrays_come_in_by_their_buffer(code: str) -> None:
    array = np.array([[0, 1], [1, 0], [1, 1]], code)
    for view in (array, array.T, array[::2], array[:, 1:1]):
        tensor = Tensor(view)
        assert str(tensor.dtype) == code
        assert tensor.shape == view.shape
        assert tensor.tolist() == view.tolist()


def test_numpy_numbers_count_as_numbers() -> None:
    assert Tensor([np.int64(3), 4]).dtype is int64
    assert Tensor([np.float64(3), 4]).dtype is float32
    assert Tensor(np.float32(1.5)).item() == 1.5
    assert (np.float64(2.0) * Tensor([1.0])).dtype is float32
    with pytest.raises(DTypeError, match="join them with stack"):
        Tensor([Tensor(1.0), Tensor(2.0)])


def test_mixed_operations_with_numpy_are_ours() -> None:
    result = np.array([1.0, 2.0], np.float32) * Tensor([3.0, 4.0])
    assert isinstance(result, Tensor)
    assert result.tolist() == [3.0, 8.0]


def test_names_of_the_package() -> None:
    assert engine.zeros(2).tolist() == [0.0, 0.0]
    assert engine.arange(3).tolist() == [0, 1, 2]
    assert engine.arange(1.0, 2.0, 0.25).tolist() == [1.0, 1.25, 1.5, 1.75]
    assert engine.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert engine.linspace(0, 1, 3).tolist() == [0.0, 0.5, 1.0]
    assert engine.eye(2, 3).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert engine.full((2,), 7).tolist() == [7, 7]
    with pytest.raises(AttributeError, match="engine has no 'missing'"):
        _ = engine.missing


def test_names_of_the_older_engine() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.select_batch(1).tolist() == [3.0, 4.0]
    assert Tensor.stack_batch([x, x]).shape == (2, 2, 2)
    assert Tensor.concat_columns([x, x]).shape == (2, 4)
    assert x.causal_mask().tolist() == [[1.0, -math.inf], [3.0, 4.0]]
    assert x.size() == (2, 2)
    assert x.size(-1) == 2
    assert x.allclose(x + 1e-7)
    assert not x.allclose(x + 1e-3)


def test_a_long_chain_is_recorded_differentiated_and_freed() -> None:
    x = Tensor([1.0], requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + 1.0
    y.backward()
    del y
    assert x.grad is not None
    assert x.grad.tolist() == [1.0]
