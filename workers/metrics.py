"""Training metrics between two flushes, as columns: one event carries them all."""

from __future__ import annotations

import math
from typing import Any


class MetricColumns:
    """Rows of named numbers by step, turned into ``{"steps": […], "values": {name: […]}, "nonfinite": […]}``.

    A name that a step lacks is null there; so is a number that isn't finite, whose name then stands in
    ``nonfinite``.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, dict[str, float]]] = []

    def __bool__(self) -> bool:
        return bool(self._rows)

    def add(self, step: int, values: dict[str, float]) -> None:
        """Adds numbers of a step; those of the step added last join its row."""
        if self._rows and self._rows[-1][0] == step:
            self._rows[-1][1].update(values)
        else:
            self._rows.append((step, dict(values)))

    def take(self) -> dict[str, Any]:
        """The columns so far; the object is empty afterwards."""
        names = list(dict.fromkeys(name for _, row in self._rows for name in row))
        columns = {name: [_finite(row.get(name)) for _, row in self._rows] for name in names}
        bad = [
            name
            for name in names
            if any(not math.isfinite(row[name]) for _, row in self._rows if name in row)
        ]
        data: dict[str, Any] = {"steps": [step for step, _ in self._rows], "values": columns}
        if bad:
            data["nonfinite"] = bad
        self._rows.clear()
        return data


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
