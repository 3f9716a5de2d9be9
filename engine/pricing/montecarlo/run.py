"""Simulations: groups of blocks one after the other, until enough paths are there; whole or in shards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any

from engine.core.dtype import float64, uint32
from engine.pricing.montecarlo import settings as usual
from engine.pricing.montecarlo.blocks import BLOCK, Row
from engine.pricing.montecarlo.draws import key_of
from engine.pricing.montecarlo.estimate import Mean, Rule, block_means, means, replicate_means, student_95
from engine.pricing.montecarlo.program import Program, program_of
from engine.pricing.montecarlo.sobol import scramble_seeds
from engine.pricing.result import Estimate
from engine.pricing.spec import Spec
from engine.tensor import Tensor

PATHS_STREAM, SCRAMBLE_STREAM, EXERCISE_STREAM = 0, 1, 2

Progress = Callable[[Estimate], None]


@dataclass(frozen=True, slots=True)
class Part:
    """A shard's blocks: the sums and the number of samples of each, from block ``first`` on.

    Sums add up in a fixed tree, so parts combine to the bits of the whole.
    """

    spec: Spec
    first: int
    rows: tuple[Row, ...]
    counts: tuple[int, ...]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """What blocks say of a request: the price and its Greeks, each with its error."""

    means: Sequence[Mean]
    paths: int
    samples: int
    freedom: int
    convergence: tuple[Estimate, ...]
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval of the price, in standard errors."""
        return student_95(self.freedom)


def simulated_shard(spec: Spec, number: int, shards: int) -> Part:
    """The blocks of shard ``number`` of ``shards``: whole groups, divided as evenly as they go."""
    spec = replace(spec, simulation=usual.settings_of(spec))
    plan = _Plan(spec, program_of(spec))
    groups = plan.groups
    first, last = groups * number // shards, groups * (number + 1) // shards
    begun = time.perf_counter()
    found = [plan.run(group) for group in range(first, last)]
    rows = tuple(row for part, _ in found for row in part)
    counts = tuple(count for _, own in found for count in own)
    return Part(spec, first * plan.group, rows, counts, time.perf_counter() - begun)


def combined(parts: Sequence[Part]) -> Simulated:
    """The estimates of all blocks together. ValueError where shards are missing or of different requests."""
    ordered = sorted(parts, key=lambda part: (part.first, len(part.rows)))
    spec = ordered[0].spec
    if any(part.spec != spec for part in ordered):
        raise ValueError("parts belong to different requests; combine takes the shards of one")
    expected = 0
    for part in ordered:
        if part.first != expected:
            raise ValueError(f"parts lack the blocks from {expected} up to {part.first}")
        expected += len(part.rows)
    plan = _Plan(spec, program_of(spec))
    if expected != plan.blocks:
        raise ValueError(f"parts have {expected} blocks of {plan.blocks}; combine takes all shards")
    rows = [row for part in ordered for row in part.rows]
    counts = [count for part in ordered for count in part.counts]
    return plan.simulated(rows, counts, sum(part.seconds for part in ordered))


def simulated(spec: Spec, progress: Progress | None = None) -> Simulated:
    """All blocks of a request; ``progress`` hears of the running estimate after each group.

    Towards a target error the number of paths doubles from 2¹⁴ on, until the error is small enough or the
    time is over; so whatever stops the run, its paths are the first ones of any longer run.
    """
    spec = replace(spec, simulation=usual.settings_of(spec))
    assert spec.simulation is not None
    if spec.simulation.target_se is None:
        return _run(_Plan(spec, program_of(spec)), progress)
    begun = time.perf_counter()
    return _towards(spec, begun + spec.simulation.max_seconds, progress)


def _towards(spec: Spec, deadline: float, progress: Progress | None) -> Simulated:
    settings: Any = spec.simulation
    paths = settings.paths or usual.FIRST_PATHS
    program = program_of(spec)
    plan = _Plan(replace(spec, simulation=replace(settings, paths=paths)), program)
    rows: list[Row] = []
    counts: list[int] = []
    begun = time.perf_counter()
    while True:
        done = len(rows) // plan.group
        for group in range(done, plan.groups):
            own, count = plan.run(group)
            rows, counts = [*rows[: group * plan.group], *own], [*counts[: group * plan.group], *count]
            if progress is not None:
                progress(plan.running(rows, counts))
        found = plan.simulated(rows, counts, time.perf_counter() - begun)
        reached = found.means[0].se <= settings.target_se
        now = time.perf_counter()
        if reached or now + (now - begun) > deadline:
            late = f"target_se {settings.target_se:g} was not reached within {settings.max_seconds:g} s"
            return found if reached else replace(found, warnings=(*found.warnings, late))
        paths *= 2
        plan = _Plan(replace(spec, simulation=replace(settings, paths=paths)), program)
        if plan.is_quasi:
            rows, counts = [], []


def _run(plan: _Plan, progress: Progress | None) -> Simulated:
    rows: list[Row] = []
    counts: list[int] = []
    begun = time.perf_counter()
    for group in range(plan.groups):
        own, count = plan.run(group)
        rows += own
        counts += count
        if progress is not None:
            progress(plan.running(rows, counts))
    return plan.simulated(rows, counts, time.perf_counter() - begun)


@lru_cache(maxsize=16)
def _counted(counts: tuple[int, ...]) -> Tensor:
    """How many samples of each block count, [blocks, 1]."""
    return Tensor([[float(count)] for count in counts], float64)


class _Plan:
    """The blocks that a request needs, and what runs a group of them."""

    def __init__(self, spec: Spec, program: Program) -> None:
        settings = spec.simulation
        assert settings is not None
        self.spec = spec
        self.program = program
        self.settings = settings
        self.feeds = program.feeds(spec)
        self.mirrors = 2 if settings.antithetic else 1
        self.is_quasi = settings.qmc == "sobol"
        samples = ceil((settings.paths or usual.FIRST_PATHS) / self.mirrors)
        if self.is_quasi:
            self.points = max(1 << max(samples // settings.scramble_replicates, 1).bit_length() - 1, 64)
            self.blocks_each = ceil(self.points / BLOCK)
            self.blocks = self.blocks_each * settings.scramble_replicates
            self.group = self.blocks_each
            self.samples = self.points * settings.scramble_replicates
        else:
            self.samples = samples
            self.blocks = ceil(samples / BLOCK)
            self.group = program.needs.layout.group
        self.groups = ceil(self.blocks / self.group)
        self.paths = self.samples * self.mirrors

    def run(self, group: int) -> tuple[list[Row], list[int]]:
        """The sums and the number of samples of each block of a group."""
        blocks = range(group * self.group, min((group + 1) * self.group, self.blocks))
        counts = [self._count(block) for block in blocks]
        counted = _counted(tuple(counts))
        layout = self.program.needs.layout
        parts = [self._draws(group, part, len(blocks)) for part in range(layout.parts)]
        return self.program.run(self.feeds, parts, counted), counts

    def _draws(self, group: int, part: int, blocks: int) -> dict[str, Tensor]:
        """What a part of a group is drawn from."""
        layout = self.program.needs.layout
        if not self.is_quasi:
            return {"key": key_of(self.settings.seed, PATHS_STREAM, group * layout.parts + part)}
        seeds = scramble_seeds(self.settings.seed, group, layout.normals + layout.uniforms)
        first = [[block * BLOCK + part * layout.lanes] for block in range(blocks)]
        return {"first point": Tensor(first, uint32), "scramble": Tensor([seeds] * blocks, uint32)}

    def _count(self, block: int) -> int:
        if self.is_quasi:
            return min(BLOCK, self.points)
        return min(BLOCK, self.samples - block * BLOCK)

    def _rule(self) -> Rule:
        program = self.program
        names = [column.name for column in program.columns]
        known = None
        if program.control is not None:
            mean = program.control.mean(self.spec, names)
            known = tuple([mean.get(name) for name in ("price", *names)])
        return Rule(1 + len(names), known)

    def _means(self, rows: Sequence[Row], counts: Sequence[int], rule: Rule) -> list[Mean]:
        if self.is_quasi:
            each = self.blocks_each
            replicates = [rows[k : k + each] for k in range(0, len(rows), each)]
            return replicate_means(replicates, self.points, rule)
        if self.settings.moment_matching:
            return block_means(rows, counts, rule)
        return means(rows, counts, rule)

    def _freedom(self, blocks: int, samples: int) -> int:
        """How many independent numbers the error is made of, less one."""
        if self.is_quasi:
            return blocks // self.blocks_each - 1
        return (blocks if self.settings.moment_matching else samples) - 1

    def running(self, rows: Sequence[Row], counts: Sequence[int]) -> Estimate:
        """The estimate so far."""
        found = self._means(rows, counts, self._rule())[0]
        return Estimate(sum(counts) * self.mirrors, found.value, found.se)

    def simulated(self, rows: Sequence[Row], counts: Sequence[int], seconds: float) -> Simulated:
        rule = self._rule()
        table = [self._estimate(rows, counts, rule, blocks) for blocks in self._milestones(len(rows))]
        return Simulated(
            self._means(rows, counts, rule),
            sum(counts) * self.mirrors,
            sum(counts),
            self._freedom(len(rows), sum(counts)),
            tuple(table),
            seconds,
        )

    def _milestones(self, blocks: int) -> Iterator[int]:
        """Powers of two, then all of them."""
        if not self.spec.convergence:
            return
        step = self.blocks_each * 2 if self.is_quasi else 1
        while step < blocks:
            yield step
            step *= 2
        yield blocks

    def _estimate(self, rows: Sequence[Row], counts: Sequence[int], rule: Rule, blocks: int) -> Estimate:
        found = self._means(rows[:blocks], counts[:blocks], rule)[0]
        return Estimate(sum(counts[:blocks]) * self.mirrors, found.value, found.se)
