"""Indices of gather and scatter, brought into range."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import BoundsError


def positions(
    op: str, mode: str, indices: Sequence[list[int]], sizes: Sequence[int], strides: Sequence[int]
) -> list[int | None]:
    """For each element of the indices, which have equal lengths, the sum of index · stride.

    None marks an index outside its axis in mode ``zero``. Raises BoundsError for one in mode ``checked``.
    """
    result: list[int | None] = [0] * len(indices[0])
    for axis, (column, size, stride) in enumerate(zip(indices, sizes, strides, strict=True)):
        for i, index in enumerate(column):
            position = result[i]
            inside = within(index, size, mode)
            if inside is None and mode == "checked":
                raise BoundsError(
                    f"{op}: index {index} is out of range for axis {axis} of size {size}; "
                    f"indices must be from 0 to {size - 1}"
                )
            result[i] = None if inside is None or position is None else position + inside * stride
    return result


def within(index: int, size: int, mode: str) -> int | None:
    """``index`` brought into range. Mirrored indices run 0 1 2 2 1 0 0 1 …"""
    if 0 <= index < size:
        return index
    if size == 0 or mode in ("zero", "checked"):
        return None
    if mode == "clamp":
        return 0 if index < 0 else size - 1
    if mode == "wrap":
        return index % size
    turned = index % (2 * size)
    return turned if turned < size else 2 * size - 1 - turned
