"""Paired timing: contenders take turns, and ratios are taken turn by turn.

A busy neighbour or a changing clock hits all contenders of one turn alike, so the ratio of a turn says
more than two separate timings; its median and quartiles over the turns are what a result states. Each
contender has a process of its own, which stands still while others have their turn: threads that spin for
more work would take the cores of the next.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles

RESULTS = Path(__file__).parent / "results"
_VECTORS = ("avx512f", "avx2")
PEERS = ("numpy", "torch", "QuantLib")
OURS = "gradmill"


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, _, high = quantiles(values, n=4, method="inclusive")
        return cls(median(values), low, high)


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: seconds of each contender, and how many times as long as ours each peer takes."""

    name: str
    seconds: dict[str, Spread]
    ratios: dict[str, Spread]
    work: float
    unit: str

    @property
    def rate(self) -> float:
        """Our median in ``unit``: work per second."""
        return self.work / self.seconds[OURS].median


def compare(
    name: str,
    contenders: Mapping[str, Callable[[], object]],
    *,
    work: float,
    unit: str,
    turns: int = 11,
    min_seconds: float = 0.02,
) -> Row:
    """Times ``contenders`` (one of them named "gradmill") in alternating turns.

    Each turn calls a contender as often as fills ``min_seconds``, after one untimed call. ``work`` is what
    one call does, in the numerator of ``unit`` (GFLOP for "GFLOP/s").
    """
    seconds: dict[str, list[float]] = {who: [] for who in contenders}
    with ExitStack() as processes:
        timed = {who: processes.enter_context(_apart(call)) for who, call in contenders.items()}
        repeats = {who: _repeats(own, min_seconds) for who, own in timed.items()}
        order = list(contenders)
        for turn in range(turns):
            for who in order if turn % 2 == 0 else reversed(order):
                seconds[who].append(timed[who](repeats[who]))
    ratios = {
        who: Spread.of([theirs / ours for theirs, ours in zip(times, seconds[OURS], strict=True)])
        for who, times in seconds.items()
        if who != OURS
    }
    return Row(name, {who: Spread.of(times) for who, times in seconds.items()}, ratios, work, unit)


Timed = Callable[[int], float]
"""The seconds that each of so many calls takes."""


@contextmanager
def _apart(call: Callable[[], object]) -> Iterator[Timed]:
    """A process that times a contender, and stands still in between."""
    here, there = get_context("fork").Pipe()
    process = get_context("fork").Process(target=_serve, args=(there, call), daemon=True)
    process.start()
    assert process.pid is not None

    def timed(repeats: int) -> float:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGCONT)
        here.send(repeats)
        seconds: float = here.recv()
        os.kill(process.pid, signal.SIGSTOP)
        return seconds

    try:
        yield timed
    finally:
        process.kill()
        process.join()


def _serve(orders: Connection, call: Callable[[], object]) -> None:
    while True:
        repeats: int = orders.recv()
        call()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        orders.send((time.perf_counter() - start) / repeats)


def _repeats(timed: Timed, min_seconds: float) -> int:
    timed(1)
    return max(1, round(min_seconds / max(timed(1), 1e-7)))


def write(benchmark: str, rows: list[Row]) -> Path:
    """Prints the rows and stores them, with machine and versions, in ``bench/results/<benchmark>.json``."""
    for row in rows:
        ratios = "  ".join(
            f"{who} ×{r.median:.2f} [{r.low:.2f}, {r.high:.2f}]" for who, r in row.ratios.items()
        )
        print(f"{row.name:36} {row.rate:12,.1f} {row.unit:14} {ratios}")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{benchmark}.json"
    path.write_text(
        json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1) + "\n"
    )
    return path


def machine() -> dict[str, str]:
    """What the numbers were measured on."""
    about = _cpuinfo()
    found = {
        "cpu": about.get("model name") or platform.processor() or platform.machine(),
        "vectors": next((name for name in _VECTORS if name in about.get("flags", "").split()), "of 16 bytes"),
        "cores": str(os.cpu_count()),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    for package in PEERS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cpuinfo() -> dict[str, str]:
    """What Linux says of its first core."""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return {}
    pairs = [line.partition(":") for line in lines]
    return {name.strip(): value.strip() for name, _, value in pairs}
