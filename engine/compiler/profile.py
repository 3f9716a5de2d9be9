"""How long each step of a plan takes, beside the least that memory and arithmetic allow; and whether it is
right.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from engine.compiler.binding import Binding
from engine.compiler.describe import count_text, size_text
from engine.compiler.interpret import interpret
from engine.compiler.report import Names, StepReport, reports
from engine.compiler.table import Table, Wave
from engine.core.dtype import bool_, float32
from engine.core.node import Node
from engine.devices.array import Array, Storage, ffi
from engine.devices.cpu.device import CpuDevice

if TYPE_CHECKING:
    from engine.compiler.plan import Plan

_COPIED = 32 << 20  # bytes: beyond what caches hold
_SIDE = 512  # of the product that measures arithmetic


@dataclass(frozen=True, slots=True)
class Limits:
    """What this machine does at most: bytes and float32 operations a second, measured."""

    bandwidth: float
    flops: float


@dataclass(frozen=True, slots=True)
class Timing:
    """One step: its report, when it began and how long it took, and its bound, in seconds."""

    report: StepReport
    start: float
    seconds: float
    bound: float


@dataclass(frozen=True, slots=True)
class Profile:
    """The timings of one run, the quickest of several for each step, launches one after another."""

    timings: tuple[Timing, ...]
    limits: Limits

    @property
    def seconds(self) -> float:
        return sum(timing.seconds for timing in self.timings)

    def trace_events(self) -> str:
        """JSON for chrome://tracing or Perfetto."""
        events = [
            {
                "name": timing.report.kernel,
                "cat": timing.report.kind,
                "ph": "X",
                "ts": round(timing.start * 1e6, 3),
                "dur": round(timing.seconds * 1e6, 3),
                "pid": 1,
                "tid": 1,
                "args": {
                    "computes": list(timing.report.computes),
                    "bytes": timing.report.moved,
                    "flops": timing.report.flops,
                    "bound_us": round(timing.bound * 1e6, 3),
                },
            }
            for timing in self.timings
        ]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})

    def __str__(self) -> str:
        lines = [
            f"{self.seconds * 1e6:.0f} µs; bounds from {size_text(self.limits.bandwidth)}/s "
            f"and {count_text(self.limits.flops)} flops/s",
            f"{'µs':>9} {'bound':>9}  {'of bound':>8}  step",
        ]
        for timing in sorted(self.timings, key=lambda timing: -timing.seconds):
            share = 100 * timing.bound / timing.seconds if timing.seconds else 100.0
            last = timing.report.computes[-1] if timing.report.computes else ""
            lines.append(
                f"{timing.seconds * 1e6:9.1f} {timing.bound * 1e6:9.1f}  {share:6.0f} %  "
                f"{timing.report.kernel} ({timing.report.kind}) {last}"
            )
        return "\n".join(lines) + "\n"


def profile(plan: Plan, binding: Binding, arrays: Sequence[Array], names: Names, repeats: int) -> Profile:
    """Runs each launch by itself, ``repeats`` times."""
    limits = machine_limits(plan.device)
    waves = [Wave([item]) for wave in binding.waves for item in wave.items]
    table = Table(waves)
    times = ffi.new("int64_t[]", len(waves) + 1)
    outputs = [Storage(nbytes) for nbytes in (*binding.output_bytes, *binding.state_bytes)]
    addresses = [*[x.address for x in arrays], *[storage.address for storage in outputs]]
    best: list[int] = []
    starts: list[int] = []
    for _ in range(max(1, repeats)):
        binding.execute(addresses, table, times)
        moments = ffi.unpack(times, len(waves) + 1)
        taken = [end - start for start, end in pairwise(moments)]
        best = [min(pair) for pair in zip(best, taken, strict=True)] if best else taken
        starts = [moment - moments[0] for moment in moments]
    seconds: dict[int, int] = {}
    began: dict[int, int] = {}
    for wave, nanoseconds, start in zip(waves, best, starts, strict=False):
        (item,) = wave.items
        seconds[item.step] = seconds.get(item.step, 0) + nanoseconds
        began.setdefault(item.step, start)
    timings = [
        Timing(report, began[report.step] / 1e9, seconds[report.step] / 1e9, _bound(report, limits))
        for report in reports(binding, names)
        if report.step in seconds
    ]
    return Profile(tuple(timings), limits)


def _bound(report: StepReport, limits: Limits) -> float:
    """The roofline: as long as its bytes or its operations take, whichever is longer."""
    return max(report.moved / limits.bandwidth, report.flops / limits.flops)


@cache
def machine_limits(device: CpuDevice) -> Limits:
    """Measured once for a device: a copy that no cache holds, and a product that fits into one."""
    source = Array.empty((_COPIED // 4,), float32)
    source.storage.buffer()[:] = bytes(_COPIED)
    square = Array.from_list([0.5] * _SIDE**2, (_SIDE, _SIDE), float32)
    copy = _seconds(device, "concat", (0,), [source], source.shape)
    product = _seconds(device, "dot", (), [square, square], square.shape)
    return Limits(2 * _COPIED / copy, 2 * _SIDE**3 / product)


def _seconds(
    device: CpuDevice, op: str, attrs: tuple[int, ...], inputs: list[Array], shape: tuple[int, ...]
) -> float:
    from time import perf_counter

    _, call = device.bind(op, attrs, inputs, shape, float32)
    best = float("inf")
    for _ in range(5):
        start = perf_counter()
        call()
        best = min(best, perf_counter() - start)
    return best


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a plan gives the bits of one node a kernel (then true); ``differences`` says where not."""

    same: bool
    differences: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.same

    def __str__(self) -> str:
        if self.same:
            return "the plan's results are those of one node a kernel, bit for bit"
        return "\n".join(("the plan's results differ:", *self.differences))


def verify(plan: Plan, binding: Binding, arrays: Sequence[Array]) -> Verdict:
    """Runs the plan, and its nodes one by one, on the same inputs."""
    targets = [*plan.targets, *[new for _, new in plan.states]]
    values = dict(zip(plan.inputs, arrays, strict=True))
    wanted = interpret(targets, values, plan.device, binding.sizes)
    got = binding.run(arrays)
    found = [difference(node, a, c) for node, a, c in zip(targets, wanted, got, strict=True)]
    differences = tuple([text for text in found if text])
    return Verdict(not differences, differences)


def difference(node: Node, wanted: Array, got: Array) -> str:
    """Where the values of a node differ first, in words; empty where they don't, all NaNs being one."""
    if wanted.tobytes() == got.tobytes():
        return ""
    for position, (a, c) in enumerate(zip(wanted.flat(), got.flat(), strict=True)):
        if repr(a) != repr(c):  # tells -0.0 from 0.0, and takes all NaNs as one
            return f"{node}: element {position} is {c!r} and should be {a!r}"
    return ""


def example_values(nodes: Sequence[Node], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Values to try a plan with: normal floats, the same each time; zeros, valid as indices, for the rest."""
    source = random.Random(0)
    return [
        Array.from_list([source.gauss(0, 1) for _ in range(prod(shape))], shape, node.dtype)
        if node.dtype.is_float and node.dtype is not bool_
        else Array.from_bytes(bytes(prod(shape) * node.dtype.size), shape, node.dtype)
        for node, shape in zip(nodes, shapes, strict=True)
    ]
