"""Launches in waves, packed as ``gm_plan`` of ``native/launch.c`` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.compiler.memory import Block
from engine.compiler.sized import CHUNK_COST
from engine.devices.array import ffi
from engine.devices.cpu.step import Call, Check

NULL_BASE, ARENA, FIRST_BASE = 0, 1, 2
LEAST_SHARED = CHUNK_COST // 2  # additions of a wave: a shorter one costs more to hand over
_SERIAL, _PARALLEL, _CHECK = 0, 1, 2  # GM_SERIAL …

Buffer = tuple[Block, int]
"""A block, and an offset in bytes from its beginning."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A check of step number ``step`` and the words that it looks at."""

    check: Check
    buffer: Buffer
    step: int


@dataclass(frozen=True, slots=True)
class Item:
    """A launch of step number ``step``, or a probe; ``cost`` is about how long it takes, in additions."""

    call: Call | None
    buffers: Sequence[Buffer]
    step: int
    level: int
    stage: int
    cost: int
    probe: Probe | None = None


@dataclass(frozen=True, slots=True)
class Wave:
    """Launches that do not depend on each other, or one probe."""

    items: Sequence[Item]
    probe: Probe | None = None
    chunks: int = field(init=False)
    parallel: bool = field(init=False)

    def __post_init__(self) -> None:
        chunks = sum([item.call.chunks for item in self.items if item.call])
        cost = sum([item.cost for item in self.items])
        object.__setattr__(self, "chunks", chunks)
        object.__setattr__(self, "parallel", chunks > 1 and cost >= LEAST_SHARED)


def waves_of(items: Sequence[Item]) -> list[Wave]:
    """Waves in order of level and stage, a probe after the launches of its own; notes when blocks are in use.

    The longest launches come first, so that threads end together.
    """
    groups: dict[tuple[int, int], list[Item]] = {}
    for item in items:
        groups.setdefault((item.level, item.stage), []).append(item)
    waves: list[Wave] = []
    for key in sorted(groups):
        launches = [item for item in groups[key] if item.call]
        if launches:
            waves.append(Wave(sorted(launches, key=lambda item: -item.cost)))
        waves += [Wave([item], item.probe) for item in groups[key] if item.probe]
    for number, wave in enumerate(waves):
        for item in wave.items:
            for block, _ in item.buffers:
                block.used(number)
    return waves


class Table:
    """``waves`` in memory; ``plan`` is the address that ``gm_run_plan`` takes. Blocks have their places."""

    def __init__(self, waves: Sequence[Wave]) -> None:
        self.waves = tuple(waves)
        items = [item for wave in waves for item in wave.items]
        words = [word for item in items if item.call for word in item.call.words]
        self._words = _array(words)
        dims = int(ffi.cast("intptr_t", self._words))
        buffers: list[int] = []
        launches: list[int] = []
        rows: list[int] = []
        for wave in waves:
            begin = len(launches) // 5
            first_chunk = 0
            for item in wave.items:
                if item.call:
                    launches += [item.call.kernel, dims, item.call.chunks, first_chunk, len(buffers) // 2]
                    dims += 8 * len(item.call.words)
                    first_chunk += item.call.chunks
                for block, offset in item.buffers:
                    buffers += [block.base, block.offset + offset]
            if wave.probe:
                rows += [_CHECK, len(buffers) // 2 - 1, wave.probe.check.words, 0]
            else:
                rows += [_PARALLEL if wave.parallel else _SERIAL, begin, len(launches) // 5, wave.chunks]
        self._parts = [_array(part) for part in (rows, launches, buffers)]
        addresses = [int(ffi.cast("intptr_t", part)) for part in self._parts]
        self._plan = _array([*addresses, len(waves), len(buffers) // 2])
        self.plan: Any = ffi.cast("void *", self._plan)


def _array(words: Sequence[int]) -> Any:
    return ffi.new("int64_t[]", words or [0])
