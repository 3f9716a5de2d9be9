"""What Greeks are derivatives with respect to: parallel shifts of the market, each a zero for every path.

A shift of its own for each path makes the gradient one number a path, so Greeks have standard errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.tensor import Tensor

Shift = tuple[str, int]
"""``spot``, ``vol`` and ``yield`` of an asset; ``rate``, ``time`` (all dates later), ``v0`` and ``corr`` of
a pair, with number 0 or the pair's place."""

FIRST: Mapping[str, str] = {
    "delta": "spot",
    "vega": "vol",
    "theta": "time",
    "rho": "rate",
    "div_rho": "yield",
    "dv0": "v0",
    "corr_sens": "corr",
}
SECOND: Mapping[str, tuple[str, str]] = {
    "gamma": ("spot", "spot"),
    "vanna": ("spot", "vol"),
    "volga": ("vol", "vol"),
}
PER_ASSET = ("spot", "vol", "yield")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A Greek's name in the answer, the shifts it is the derivative for, and its sign."""

    name: str
    shifts: tuple[Shift, ...]

    @property
    def sign(self) -> float:
        """Theta is the passing of time, which brings all dates nearer."""
        return -1.0 if self.name == "theta" else 1.0


def wanted(greeks: Sequence[str], assets: int) -> list[Wanted]:
    """One entry for each number: several assets have delta1, delta2, …, and corr_sens12 … for their pairs."""
    found = []
    for greek in greeks:
        kinds = SECOND.get(greek) or (FIRST[greek],)
        if greek == "corr_sens":
            pairs = pairs_of(assets)
            names = [greek if assets == 2 else f"{greek}{i + 1}{j + 1}" for i, j in pairs]
            found += [Wanted(name, (("corr", place),)) for place, name in enumerate(names)]
        elif any(kind in PER_ASSET for kind in kinds):
            for asset in range(assets):
                shifts = tuple((kind, asset if kind in PER_ASSET else 0) for kind in kinds)
                found.append(Wanted(greek if assets == 1 else f"{greek}{asset + 1}", shifts))
        else:
            found.append(Wanted(greek, ((kinds[0], 0),)))
    return found


def pairs_of(assets: int) -> list[tuple[int, int]]:
    """Pairs of assets, (0, 1) first."""
    return [(i, j) for i in range(assets) for j in range(i + 1, assets)]


class Shifts:
    """The shifts that a graph has; None stands for no shift."""

    def __init__(self, lanes: Mapping[Shift, Tensor] | None = None) -> None:
        self.lanes = dict(lanes or {})

    def get(self, kind: str, number: int = 0) -> Tensor | None:
        """float64[blocks, 1, paths], or None."""
        return self.lanes.get((kind, number))

    def flat(self) -> Shifts:
        """The same as [blocks, paths], for what goes along the dates one by one."""
        return Shifts({key: x.squeeze(1) for key, x in self.lanes.items()})

    def moved(self, value: Tensor, kind: str, number: int = 0) -> Tensor:
        """``value`` with its shift, if there is one."""
        shift = self.get(kind, number)
        return value if shift is None else value + shift
