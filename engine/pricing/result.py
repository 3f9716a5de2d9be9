"""The answer to a request: amounts are in the currency of the spot, Greeks in raw units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNITS = {
    "delta": "per 1.00 of spot",
    "gamma": "per 1.00 of spot, squared",
    "vega": "per 1.00 of volatility",
    "theta": "per calendar year that passes",
    "rho": "per 1.00 of rate",
    "div_rho": "per 1.00 of yield",
    "vanna": "per 1.00 of spot and 1.00 of volatility",
    "volga": "per 1.00 of volatility, squared",
    "dv0": "per 1.00 of variance today",
    "corr_sens": "per 1.00 of correlation",
}
SCALED = {"vega": ("vega_pct", 100.0), "theta": ("theta_day", 365.0), "rho": ("rho_pct", 100.0)}
SCALED["div_rho"] = ("div_rho_pct", 100.0)


@dataclass(frozen=True, slots=True)
class Greek:
    """A sensitivity. ``value`` is None where it is not defined (``method`` says why); ``se`` 0 is exact."""

    value: float | None
    method: str
    unit: str
    se: float = 0.0


@dataclass(frozen=True, slots=True)
class Exact:
    """A price without sampling error, with the method and the source of its formula."""

    value: float
    method: str
    source: str
    greeks: Mapping[str, Greek] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A running estimate after ``n`` paths."""

    n: int
    price: float
    se: float


@dataclass(frozen=True, slots=True)
class Check:
    """A comparison with what must hold: bounds without arbitrage, put-call or in-out parity."""

    name: str
    holds: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Draws:
    """Where the random numbers came from: enough to draw them again."""

    seed: int
    rng: str
    layout: str


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to a request.

    ``se`` is 0 and ``ci95`` (price, price) where the price is exact. ``n_effective`` counts an antithetic
    pair once. ``bias`` states what error the standard error does not cover. ``z`` is (price - closed form)
    in standard errors. ``upper`` is the dual bound of an early exercise price.
    """

    price: float
    method: str
    bias: str
    spec: Mapping[str, object]
    hash: str
    se: float = 0.0
    ci95: tuple[float, float] | None = None
    n_paths: int = 0
    n_effective: int = 0
    draws: Draws | None = None
    closed_form: Exact | None = None
    z: float | None = None
    upper: Estimate | None = None
    greeks: Mapping[str, Greek] = field(default_factory=dict)
    convergence: tuple[Estimate, ...] = ()
    checks: tuple[Check, ...] = ()
    seconds: float | None = None
    path_steps_per_s: float | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImpliedVolResult:
    """An implied volatility. ``accuracy`` is what a double price can tell of it, relative.

    ``roots`` holds all solutions, rising; ``value`` is the lowest.
    """

    value: float
    accuracy: float
    roots: tuple[float, ...]
    bounds: tuple[float, float]
    formula: str
    spec: Mapping[str, object]
    hash: str
    warnings: tuple[str, ...] = ()
