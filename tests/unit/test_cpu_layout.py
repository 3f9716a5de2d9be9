"""Collapsing axes keeps what is read and in which order; results keep the axis order of their operands."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.dtype import float32, int64
from engine.devices.array import Array, contiguous_strides, strided_offsets
from engine.devices.cpu import CpuDevice
from engine.devices.cpu.index import scatter_tiles
from engine.devices.cpu.layout import BLOCK, blocks, collapse, dense_strides
from engine.devices.toolchain import find_toolchain

shapes = st.lists(st.integers(1, 4), max_size=4).map(tuple)
strides = st.lists(st.integers(-6, 6), min_size=4, max_size=4)


@given(shape=shapes, first=strides, second=strides)
def test_collapsed_axes_read_the_same_elements_in_the_same_order(
    shape: tuple[int, ...], first: list[int], second: list[int]
) -> None:
    operands = [tuple(own[: len(shape)]) for own in (first, second)]
    sizes, steps = collapse(shape, *operands)
    assert len(sizes) <= max(1, len(shape))
    for before, after in zip(operands, steps, strict=True):
        assert strided_offsets(0, shape, before) == strided_offsets(0, sizes, after)


def test_contiguous_operands_become_one_axis() -> None:
    assert collapse((2, 3, 1, 4), (12, 4, 9, 1), (12, 4, 4, 1)) == ((24,), ((1,), (1,)))
    assert collapse((), (), ()) == ((1,), ((0,), (0,)))
    assert collapse((3, 0), (0, 1)) == ((0,), ((1,),))


@given(shape=shapes, order=st.permutations(range(4)))
def test_a_result_keeps_the_order_of_a_dense_operand(shape: tuple[int, ...], order: list[int]) -> None:
    kept = [axis for axis in order if axis < len(shape)]
    inner = contiguous_strides(tuple(shape[axis] for axis in kept))
    own = tuple(inner[kept.index(axis)] for axis in range(len(shape)))
    found = dense_strides(shape, [(0,) * len(shape), own])
    assert sorted(strided_offsets(0, shape, found)) == list(range(prod(shape)))
    assert strided_offsets(0, shape, found) == strided_offsets(0, shape, own)


@given(shape=shapes, first=strides, second=strides, repeats=st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_blocks_are_whole_periods_of_what_repeats(
    shape: tuple[int, ...], first: list[int], second: list[int], repeats: tuple[int, int]
) -> None:
    operands = []
    for own, zeros in zip((first, second), repeats, strict=True):
        operands.append(tuple(0 if axis < zeros else own[axis] for axis in range(len(shape))))
    block, repeated = blocks(shape, operands)
    assert 0 < block <= BLOCK
    for k in repeated:
        read = strided_offsets(0, shape, operands[k]) * (2 * BLOCK // prod(shape) + 2)
        assert read[:block] == read[block : 2 * block]


@given(positions=st.integers(1, 10**5), rows=st.integers(1, 10**4), length=st.integers(1, 3000))
def test_scatter_tiles_cover_the_destination_once(positions: int, rows: int, length: int) -> None:
    columns, across, offsets, tiles = scatter_tiles(positions, rows, length)
    down = tiles // across
    assert tiles == across * down
    assert (across - 1) * columns < length <= across * columns
    assert (down - 1) * offsets < rows * length <= down * offsets
    assert offsets % length == 0


@pytest.mark.skipif(find_toolchain() is None, reason="no C compiler here")
def test_movement_is_a_view_and_results_keep_the_order_of_their_operands() -> None:
    device = CpuDevice()
    x = Array.from_list(range(6), (2, 3), int64)
    for op, attrs, shape in (
        ("transpose", ((1, 0),), (3, 2)),
        ("reshape", ((6,),), (6,)),
        ("slice", ((1, 2), (1, 3), (1, -1)), (1, 3)),
        ("broadcast", ((4, 2, 3),), (4, 2, 3)),
        ("detach", (), (2, 3)),
        ("bitcast", (int64,), (2, 3)),
    ):
        assert device.run(op, attrs, [x], shape, int64).storage is x.storage
    turned = device.run("transpose", ((1, 0),), [x], (3, 2), int64)
    total = device.run("add", (), [turned, turned], (3, 2), int64)
    assert total.tolist() == [[0, 6], [2, 8], [4, 10]]
    assert total.strides == (1, 3)
    y = Array.from_list([1.0], (1,), float32)
    assert device.run("cast", (float32,), [y], (1,), float32).storage is y.storage
