"""Movement primitives as index maps: each element is found where NumPy finds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.compiler.access import Access, moved, padded, recut, whole
from engine.core import build as b
from engine.core.dim import symbol
from engine.core.dtype import float32
from engine.core.node import Node

R = symbol("r")


def follow(node: Node) -> Access:
    if not node.inputs or node.op == "pad":
        return whole(node)
    return moved(node, follow(node.inputs[0]))


def read(access: Access, buffer: np.ndarray[Any, Any], fill: float = 0) -> np.ndarray[Any, Any]:
    """All elements of an access, one at a time."""
    result = np.full(access.shape, fill, buffer.dtype)
    windows = access.windows or (None,) * len(access.shape)
    for index in np.ndindex(access.shape):
        inside = all(w is None or w[0] <= i < w[1] for i, w in zip(index, windows, strict=True))
        if inside:
            result[index] = buffer[
                access.offset + sum(i * s for i, s in zip(index, access.strides, strict=True))
            ]
    return result


@st.composite
def chains(draw: st.DrawFn) -> tuple[Node, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A leaf moved a few times, the leaf's elements, and NumPy's result."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    buffer = np.arange(int(np.prod(shape)))
    node, value = b.input(shape, float32), buffer.reshape(shape)
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(("transpose", "slice", "broadcast", "split", "join", "one")))
        rank = value.ndim
        if kind == "transpose":
            perm = tuple(draw(st.permutations(range(rank))))
            node, value = b.transpose(node, perm), value.transpose(perm)
        elif kind == "slice" and rank:
            starts, sizes, steps = [], [], []
            for size in value.shape:
                count = draw(st.integers(1, size))
                start = draw(st.integers(0, size - count))
                flipped = draw(st.booleans())
                starts.append(start + count - 1 if flipped else start)
                sizes.append(count)
                steps.append(-1 if flipped else 1)
            node = b.slice(node, tuple(starts), tuple(sizes), tuple(steps))
            for axis, (start, count, step) in enumerate(zip(starts, sizes, steps, strict=True)):
                value = np.take(value, start + step * np.arange(count), axis)
        elif kind == "broadcast" and rank < 5:
            shape = (2, *[draw(st.sampled_from((1, 3))) if size == 1 else size for size in value.shape])
            node, value = b.broadcast(node, shape), np.broadcast_to(value, shape)
        elif kind == "split" and rank and value.shape[0] == 4:
            shape = (2, 2, *value.shape[1:])
            node, value = b.reshape(node, shape), value.reshape(shape)
        elif kind == "join" and rank > 1:
            shape = (value.shape[0] * value.shape[1], *value.shape[2:])
            node, value = b.reshape(node, shape), value.reshape(shape)
        elif kind == "one":
            node, value = b.reshape(node, (*value.shape, 1)), value.reshape(*value.shape, 1)
    return node, buffer, value


@given(chains())
def test_chains_of_movement_read_the_right_elements(chain: tuple[Node, Any, Any]) -> None:
    node, buffer, value = chain
    access = follow(node)
    copied = access.source.op == "reshape"
    if not copied:
        assert read(access, buffer).tolist() == value.tolist()
    else:  # what follows the copy still reads it right
        assert access.shape == value.shape


def test_a_reshape_across_a_transpose_has_a_buffer_of_its_own() -> None:
    node = b.reshape(b.swap_last(b.input((3, 4), float32)), (12,))
    assert follow(node) == whole(node)


def test_symbolic_heads_are_split_and_moved_without_a_copy() -> None:
    x = b.input((R, 32, 128), float32)
    heads = b.transpose(b.reshape(x, (R, 32, 4, 32)), (0, 2, 1, 3))
    assert follow(heads) == Access(x, (R, 4, 32, 32), 0, (4096, 32, 128, 1))


def test_strides_over_a_finer_space() -> None:
    access = Access(b.input((1,), float32), (6, 1, 8), 0, (100, 7, 2))
    assert access.over((3, 2, 8)) == (200, 100, 2)
    assert access.over((6, 2, 4)) == (100, 8, 2)
    assert access.over((4, 12)) is None


@pytest.mark.parametrize("low", [(0, 1), (2, 0), (2, 3)])
@pytest.mark.parametrize("high", [(0, 0), (1, 2)])
def test_borders(low: tuple[int, int], high: tuple[int, int]) -> None:
    buffer = np.arange(12)
    access = padded(whole(b.input((3, 4), float32)), (3 + low[0] + high[0], 4 + low[1] + high[1]), low)
    want = np.pad(buffer.reshape(3, 4), list(zip(low, high, strict=True)), constant_values=-1)
    assert read(access, buffer, -1).tolist() == want.tolist()


def test_a_border_of_nothing_has_no_windows() -> None:
    x = b.input((3, 4), float32)
    assert padded(whole(x), (3, 4), (0, 0)) == whole(x)


def test_windows_along_a_finer_space() -> None:
    access = Access(b.input((1,), float32), (384,), 0, (1,), ((256, 384),))
    assert access.bounds((12, 32)) == ((8, 12), None)
    assert access.bounds((3, 128)) == ((2, 3), None)
    assert access.bounds((2, 192)) is None
    assert access.over((2, 192)) is None


def test_a_border_is_cut_as_what_it_surrounds() -> None:
    assert recut((32, 128), (32, 4, 32), (32, 384), (0, 256)) == ((32, 12, 32), (0, 8, 0))
    assert recut((32, 128), (32, 4, 32), (32, 384), (0, 16)) is None
    assert recut((R, 1, 6), (R, 6), (R, 1, 9), (0, 0, 3)) == ((R, 9), (0, 3))
    assert recut((1, 6), (6,), (2, 6), (1, 0)) is None
