"""Paired timing: contenders take turns in one process, and ratios are taken turn by turn.

A busy neighbour or a changing clock hits all contenders of one turn alike, so the ratio of a turn says
more than two separate timings; its median and quartiles over the turns are what a result states.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median, quantiles

RESULTS = Path(__file__).parent / "results"
_REST_S = 0.05  # before each turn: threads of the contender before may still spin for more work
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

    Each turn calls a contender as often as fills ``min_seconds``, after a rest and one untimed call. ``work``
    is what one call does, in the numerator of ``unit`` (GFLOP for "GFLOP/s").
    """
    repeats = {who: _repeats(call, min_seconds) for who, call in contenders.items()}
    seconds: dict[str, list[float]] = {who: [] for who in contenders}
    order = list(contenders)
    for turn in range(turns):
        for who in order if turn % 2 == 0 else reversed(order):
            seconds[who].append(_time(contenders[who], repeats[who]))
    ratios = {
        who: Spread.of([theirs / ours for theirs, ours in zip(times, seconds[OURS], strict=True)])
        for who, times in seconds.items()
        if who != OURS
    }
    return Row(name, {who: Spread.of(times) for who, times in seconds.items()}, ratios, work, unit)


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


def _time(call: Callable[[], object], repeats: int) -> float:
    time.sleep(_REST_S)
    call()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _repeats(call: Callable[[], object], min_seconds: float) -> int:
    call()
    return max(1, round(min_seconds / max(_time(call, 1), 1e-7)))
