"""Host memory and strided arrays: alignment, reuse, conversion to and from Python, views."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given as draw
from hypothesis import settings
from hypothesis import strategies as st
from primitives import to_array, to_numpy

from engine.core.dtype import ALL, bfloat16, bool_, float32, int32
from engine.devices.array import Array, Storage, contiguous_strides, reshaped_strides, view

SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 4]), max_size=4).map(tuple)


@pytest.mark.parametrize("nbytes", [0, 1, 64, 65, 1000, 4097, 1 << 20])
def test_storage_is_aligned_and_as_large_as_asked(nbytes) -> None:
    storage = Storage(nbytes)
    assert storage.address % 64 == 0
    buffer = storage.buffer()
    assert len(buffer) == storage.nbytes == nbytes
    buffer[:] = bytes(nbytes)


def test_freed_blocks_are_used_again_and_living_ones_are_not() -> None:
    first = Storage(12345)
    address = first.address
    second = Storage(12345)
    assert second.address != address
    del first
    assert Storage(12340).address == address


def test_no_two_objects_hold_one_block() -> None:
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a block of memory cannot be copied"):
            duplicate(Storage(8))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_arrays_have_memory_of_their_own(duplicate: Callable[[Array], Array]) -> None:
    array = view("transpose", ((1, 0),), Array.from_list(range(6), (2, 3), bfloat16))
    assert array is not None
    copied = duplicate(array)
    assert copied.storage.address != array.storage.address
    assert (copied.tolist(), copied.shape, copied.dtype) == (array.tolist(), array.shape, array.dtype)


def test_a_view_of_the_bytes_keeps_the_block() -> None:
    storage = Storage(4000)
    address, buffer = storage.address, storage.buffer()
    buffer[:] = b"x" * 4000
    del storage
    others = [Storage(4000) for _ in range(3)]
    assert address not in [other.address for other in others]
    assert bytes(buffer) == b"x" * 4000


@pytest.mark.parametrize("dtype", ALL, ids=str)
@draw(SHAPES)
def test_lists_come_back(dtype, shape) -> None:
    count = int(np.prod(shape))
    values = [i % 2 for i in range(count)] if dtype is bool_ else list(range(count))
    array = Array.from_list(values, shape, dtype)
    assert array.tolist() == np.array(values, to_numpy(array).dtype).reshape(shape).tolist()
    assert array.size == count
    assert array.nbytes == len(array.tobytes()) == count * dtype.size
    assert array.is_contiguous
    assert Array.from_bytes(array.tobytes(), shape, dtype).tolist() == array.tolist()


def test_numbers_are_rounded_to_the_dtype() -> None:
    assert Array.from_list([2**31, -1, 1.9], (3,), int32).tolist() == [-(2**31), -1, 1]
    assert Array.from_list([1.01171875, 1e39], (2,), bfloat16).tolist() == [1.015625, float("inf")]
    assert Array.from_list([1e39, 0.1], (2,), float32).tolist() == [float("inf"), float(np.float32(0.1))]


def test_wrong_numbers_of_elements_are_refused() -> None:
    with pytest.raises(ValueError, match="3 values for shape \\(2, 2\\), which takes 4"):
        Array.from_list([1, 2, 3], (2, 2), float32)
    with pytest.raises(ValueError, match="3 bytes for int32\\(1,\\), which takes 4"):
        Array.from_bytes(b"abc", (1,), int32)


def test_contiguity_ignores_strides_that_are_never_taken() -> None:
    storage = Storage(64)
    assert Array(storage, 3, (1, 4), (99, 1), int32).is_contiguous
    assert Array(storage, 0, (0, 4), (7, 7), int32).is_contiguous
    assert not Array(storage, 0, (2, 2), (1, 2), int32).is_contiguous
    assert not Array(storage, 0, (3,), (0,), int32).is_contiguous
    assert Array(storage, 3, (), (), int32).address == storage.address + 12


@st.composite
def views_of_views(draw):
    """A NumPy array of consecutive numbers and ours, both taken through the same movements."""
    shape = draw(SHAPES.filter(lambda s: 0 not in s))
    theirs = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    ours = to_array(theirs)
    for _ in range(draw(st.integers(0, 4))):
        rank = theirs.ndim
        kind = draw(st.sampled_from(["transpose", "flip", "step", "broadcast"]))
        if kind == "transpose":
            perm = tuple(draw(st.permutations(range(rank))))
            theirs, attrs, op = theirs.transpose(perm), (perm,), "transpose"
        elif kind == "broadcast":
            new = (2, *[3 if size == 1 else size for size in theirs.shape])
            theirs, attrs, op = np.broadcast_to(theirs, new), (new,), "broadcast"
        elif rank:
            step = -1 if kind == "flip" else 2
            starts = tuple(size - 1 if step < 0 else 0 for size in theirs.shape)
            theirs = theirs[(slice(None, None, step),) * rank]
            attrs, op = (starts, theirs.shape, (step,) * rank), "slice"
        else:
            continue
        moved = view(op, attrs, ours)
        assert moved is not None
        ours = moved
    return theirs, ours


@draw(views_of_views())
@settings(max_examples=200)
def test_views_are_what_numpy_makes_of_them(pair) -> None:
    theirs, ours = pair
    np.testing.assert_array_equal(to_numpy(ours), theirs)
    assert ours.tobytes() == theirs.tobytes()
    assert list(ours.offsets()) == [int(x) for x in theirs.ravel()]


@draw(views_of_views(), st.data())
@settings(max_examples=120)
def test_reshape_is_a_view_exactly_where_numpy_finds_one(pair, data) -> None:
    theirs, ours = pair
    new: list[int] = []
    left = theirs.size
    while left > 1:
        new.append(data.draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0])))
        left //= new[-1]
    wanted = theirs.reshape(new)
    result = view("reshape", (tuple(new),), ours)
    assert (result is not None) == np.shares_memory(theirs, wanted)
    if result is not None:
        np.testing.assert_array_equal(to_numpy(result), wanted)


@draw(SHAPES)
def test_strides_of_a_reshape_to_the_same_shape(shape) -> None:
    if 0 not in shape:
        strides = contiguous_strides(shape)
        again = reshaped_strides(shape, strides, shape)
        assert again is not None
        assert all(a == b or size == 1 for a, b, size in zip(strides, again, shape, strict=True))


def test_only_movement_has_views() -> None:
    x = Array.from_list([1, 2], (2,), float32)
    assert view("exp", (), x) is None
    assert all(view(op, (), x) is x for op in ("detach", "pass_grad", "keep"))
