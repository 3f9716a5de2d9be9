"""Waves: which launches run side by side, in which order, and which are worth several threads."""

from __future__ import annotations

from engine.compiler.memory import Block
from engine.compiler.table import LEAST_SHARED, Item, waves_of
from engine.devices.cpu.step import Call


def item(level: int, cost: int, chunks: int = 1, stage: int = 0, block: Block | None = None) -> Item:
    return Item(Call(0, [], chunks), [(block or Block(64), 0)], 0, level, stage, cost)


def test_launches_of_one_level_and_stage_share_a_wave() -> None:
    items = [item(3, 1), item(1, 1), item(3, 1), item(1, 1, stage=1)]
    assert [[(own.level, own.stage) for own in wave.items] for wave in waves_of(items)] == [
        [(1, 0)],
        [(1, 1)],
        [(3, 0), (3, 0)],
    ]


def test_the_longest_launch_comes_first() -> None:
    (wave,) = waves_of([item(1, cost) for cost in (3, 10, 1, 7)])
    assert [own.cost for own in wave.items] == [10, 7, 3, 1]
    assert wave.chunks == 4


def test_only_long_waves_of_several_chunks_are_shared_among_threads() -> None:
    long = LEAST_SHARED
    cases = [
        ([item(1, long)], False),
        ([item(1, long, chunks=2)], True),
        ([item(1, long - 1, chunks=2)], False),
        ([item(1, long // 2), item(1, long // 2)], True),
        ([item(1, 10), item(1, 10)], False),
    ]
    for items, shared in cases:
        (wave,) = waves_of(items)
        assert wave.parallel is shared


def test_blocks_are_in_use_from_their_first_wave_to_their_last() -> None:
    block = Block(64)
    waves_of([item(1, 1), item(2, 1, block=block), item(5, 1), item(7, 1, block=block), item(9, 1)])
    assert (block.first, block.last) == (1, 3)
