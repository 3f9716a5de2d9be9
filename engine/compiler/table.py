"""Launches in waves, packed as ``gm_plan`` of ``native/launch.c`` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from engine.compiler.memory import Block
from engine.compiler.sized import CHUNK_COST
from engine.devices.array import ffi
from engine.devices.cpu.step import Call, Check

if TYPE_CHECKING:
    from engine.compiler.binding import Binding

NULL_BASE, ARENA, FIRST_BASE = 0, 1, 2
LEAST_SHARED = CHUNK_COST // 2  # additions of a wave: a shorter one costs more to hand over
_SERIAL, _PARALLEL, _CHECK, _LOOP, _COND = range(5)  # GM_SERIAL …

Buffer = tuple[Block, int]
"""A block, and an offset in bytes from its beginning."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A check of step number ``step`` and the words that it looks at."""

    check: Check
    buffer: Buffer
    step: int


@dataclass(frozen=True, slots=True)
class Nested:
    """A loop or a condition, as ``gm_loop`` and ``gm_cond`` describe them, and the bindings that it runs.

    The first of its buffers holds the bases of the binding that runs, and then ``HEAD``.
    """

    kind: Literal["loop", "cond"]
    words: tuple[int, ...]
    bindings: tuple[Binding, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """A launch of step number ``step``, a probe or what is nested; ``cost`` is about how long it takes, in
    additions.
    """

    call: Call | None
    buffers: Sequence[Buffer]
    step: int
    level: int
    stage: int
    cost: int
    probe: Probe | None = None
    nested: Nested | None = None


@dataclass(frozen=True, slots=True)
class Wave:
    """Launches that do not depend on each other, or something else alone."""

    items: Sequence[Item]
    chunks: int = field(init=False)
    parallel: bool = field(init=False)

    def __post_init__(self) -> None:
        chunks = sum([item.call.chunks for item in self.items if item.call])
        cost = sum([item.cost for item in self.items])
        object.__setattr__(self, "chunks", chunks)
        object.__setattr__(self, "parallel", chunks > 1 and cost >= LEAST_SHARED)

    @property
    def probe(self) -> Probe | None:
        return self.items[0].probe

    @property
    def nested(self) -> Nested | None:
        return self.items[0].nested


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
        waves += [Wave([item]) for item in groups[key] if not item.call]
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
        self._nested: list[Any] = []
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
            if wave.nested:
                first = len(buffers) // 2 - len(wave.items[0].buffers)
                rows += [_LOOP if wave.nested.kind == "loop" else _COND, first, self._address(wave.nested), 0]
            elif wave.probe:
                rows += [_CHECK, len(buffers) // 2 - 1, wave.probe.check.words, 0]
            else:
                rows += [_PARALLEL if wave.parallel else _SERIAL, begin, len(launches) // 5, wave.chunks]
        self._parts = [_array(part) for part in (rows, launches, buffers)]
        addresses = [int(ffi.cast("intptr_t", part)) for part in self._parts]
        self._plan = _array([*addresses, len(waves), len(buffers) // 2])
        self.plan: Any = ffi.cast("void *", self._plan)

    @property
    def address(self) -> int:
        return int(ffi.cast("intptr_t", self._plan))

    def _address(self, nested: Nested) -> int:
        self._nested.append(_array(nested.words))
        return int(ffi.cast("intptr_t", self._nested[-1]))


def _array(words: Sequence[int]) -> Any:
    return ffi.new("int64_t[]", words or [0])
