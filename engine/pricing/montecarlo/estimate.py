"""From the sums of blocks to prices and Greeks with their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt

from engine.pricing.montecarlo.blocks import BLOCK, Row, total

ROUNDING = 1e-26  # relative to a square
PILOT = 2**14 // BLOCK  # blocks whose sums fix the coefficients of the control


@dataclass(frozen=True, slots=True)
class Mean:
    """An estimate and its standard error."""

    value: float
    se: float


@dataclass(frozen=True, slots=True)
class Rule:
    """How sums become means: which sums there are, and what is known of the control.

    ``known`` holds the control's mean of each column (None where that is not known, hence of no use), or is
    None without a control. A coefficient is that of the first 2¹⁴ samples: later ones do not change it, so it
    adds no bias that more paths would keep.
    """

    columns: int
    known: tuple[float | None, ...] | None

    @property
    def sums(self) -> int:
        """Of each column."""
        return 2 if self.known is None else 5


def means(rows: Sequence[Row], counts: Sequence[int], rule: Rule) -> list[Mean]:
    """The mean of each column over independent samples.

    The error is not known (inf) where there are no more samples than numbers that are fitted to them.
    """
    sums, n = total(rows), sum(counts)
    fitted = 1 if rule.known is None else 2
    coefficients = _coefficients(rows, counts, rule)
    found = []
    for k, own in enumerate(_columns(sums, rule)):
        y, yy = own[0] / n, own[1] / n
        variance = yy - y * y
        if rule.known is not None:
            b, x = coefficients[k], own[2] / n
            spread = own[3] / n - x * x
            variance += b * b * spread - 2.0 * b * (own[4] / n - x * y)
            y -= b * (x - (rule.known[k] or 0.0))
        se = sqrt(max(variance, 0.0) / (n - 1)) if n > fitted else inf
        found.append(Mean(y, se))
    return found


def block_means(rows: Sequence[Row], counts: Sequence[int], rule: Rule) -> list[Mean]:
    """The mean of each column where the samples of a block depend on each other: error by the blocks' spread.

    The last block counts as much as it has samples.
    """
    coefficients = _coefficients(rows, counts, rule)
    own = [_replicate([row], n, rule, coefficients) for row, n in zip(rows, counts, strict=True)]
    n, found = sum(counts), []
    for values in zip(*own, strict=True):
        mean = sum(value * count for value, count in zip(values, counts, strict=True)) / n
        spread = sum((value - mean) ** 2 * count for value, count in zip(values, counts, strict=True)) / n
        found.append(Mean(mean, sqrt(spread / (len(own) - 1)) if len(own) > 1 else inf))
    return found


def replicate_means(replicates: Sequence[Sequence[Row]], points: int, rule: Rule) -> list[Mean]:
    """The mean of each column over independent scrambles of ``points`` points, error by their spread."""
    first = replicates[0]
    coefficients = _coefficients(first, [points // len(first)] * len(first), rule)
    own = [_replicate(rows, points, rule, coefficients) for rows in replicates]
    count = len(own)
    found = []
    for values in zip(*own, strict=True):
        mean = sum(values) / count
        spread = sum((value - mean) ** 2 for value in values)
        found.append(Mean(mean, sqrt(spread / (count * (count - 1))) if count > 1 else inf))
    return found


def _replicate(rows: Sequence[Row], points: int, rule: Rule, coefficients: Sequence[float]) -> list[float]:
    columns = _columns(total(rows), rule)
    if rule.known is None:
        return [own[0] / points for own in columns]
    return [
        own[0] / points - b * (own[2] / points - (known or 0.0))
        for own, b, known in zip(columns, coefficients, rule.known, strict=True)
    ]


def _columns(sums: Row, rule: Rule) -> list[Row]:
    width = rule.sums
    return [sums[k * width : (k + 1) * width] for k in range(rule.columns)]


def _coefficients(rows: Sequence[Row], counts: Sequence[int], rule: Rule) -> list[float]:
    """The least squares slope of each column on its control in the pilot; 0 where that has no known mean, or
    stands still: beside the control's price, what is left of its spread is rounding.
    """
    if rule.known is None:
        return []
    n = sum(counts[:PILOT])
    columns = _columns(total(rows[:PILOT]), rule)
    least = ROUNDING * columns[0][3] / n
    found = []
    for (y, _, x, xx, xy), known in zip(columns, rule.known, strict=True):
        spread = xx / n - (x / n) ** 2
        slope = (xy / n - (x / n) * (y / n)) / spread if spread > max(1e-14 * xx / n, least) else 0.0
        found.append(slope if isfinite(slope) and known is not None else 0.0)
    return found


def student_95(freedom: int) -> float:
    """The two-sided 95 % quantile of Student's distribution (Hill 1970 for few degrees, else the normal's).

    1.96 + 2.37/ν + 2.82/ν² + 2.56/ν³ + …: the expansion of Fisher and Cornish, four digits from ν = 7 on.
    """
    z = 1.959963984540054
    if freedom > 10_000:
        return z
    g1 = (z**3 + z) / 4.0
    g2 = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    g3 = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + g1 / freedom + g2 / freedom**2 + g3 / freedom**3 if freedom > 0 else inf
