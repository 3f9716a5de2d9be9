"""Figures: numbers with a bar each instead of a peer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bench.pairing import RESULTS, machine


@dataclass(frozen=True)
class Figure:
    """One number, and the bar it must reach: ``at least`` or ``at most``."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False

    @property
    def verdict(self) -> str:
        """``ok``, ``missed``, or nothing without a bar."""
        if self.bar is None:
            return ""
        return "ok" if (self.value >= self.bar) == self.at_least or self.value == self.bar else "missed"

    def __str__(self) -> str:
        rule = f"{'≥' if self.at_least else '≤'} {self.bar:g}" if self.bar is not None else ""
        return f"{self.name:56} {self.value:12,.2f} {self.unit:8} {rule:>8} {self.verdict}"


def store(benchmark: str, figures: Sequence[Figure]) -> None:
    """Writes them, with machine and versions, to ``bench/results/<benchmark>.json``."""
    rows = [{**asdict(figure), "verdict": figure.verdict} for figure in figures]
    text = json.dumps({"machine": machine(), "figures": rows}, indent=1)
    (RESULTS / f"{benchmark}.json").write_text(text + "\n")
