"""How assets move. Under the pricing measure each drifts at r - q."""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1
from typing import Annotated, ClassVar

from engine.pricing.spec.fields import (
    Context,
    Part,
    SpecError,
    choice,
    join,
    listing,
    number,
    read_fields,
    require_mapping,
    require_rising,
)

MOST_JUMPS = 1e5
LARGEST_GROWTH = 100.0


@dataclass(frozen=True, slots=True)
class Model:
    """Base of all models. ``takes_vol``: the market's vol is part of it. ``assets``: the most it can move."""

    takes_vol: ClassVar[bool] = True
    assets: ClassVar[int] = 64


@dataclass(frozen=True, slots=True)
class BlackScholes(Model):
    """dS = (r - q) S dt + vol S dW."""


BLACK_SCHOLES = BlackScholes()


@dataclass(frozen=True, slots=True)
class MertonJumps(Model):
    """Black-Scholes with ``lam`` jumps a year, log sizes N(mu_j, sigma_j^2), the drift compensated."""

    assets: ClassVar[int] = 1

    intensity: Annotated[float, Part(number(0.0, 1e4), "jumps a year", "lam")]
    mean: Annotated[float, Part(number(-10.0, 10.0), "mean of a jump's logarithm", "mu_j")]
    deviation: Annotated[
        float, Part(number(0.0, 10.0), "standard deviation of a jump's logarithm", "sigma_j")
    ]


@dataclass(frozen=True, slots=True)
class Heston(Model):
    """dS = (r - q) S dt + sqrt(v) S dW, dv = kappa (theta - v) dt + xi sqrt(v) dZ, d<W, Z> = rho dt."""

    takes_vol: ClassVar[bool] = False
    assets: ClassVar[int] = 1

    v0: Annotated[float, Part(number(0.0, 100.0), "variance today")]
    kappa: Annotated[float, Part(number(0.0, 1e4), "speed of reversion")]
    theta: Annotated[float, Part(number(0.0, 100.0), "long-run variance")]
    xi: Annotated[float, Part(number(0.0, 100.0), "volatility of variance")]
    rho: Annotated[float, Part(number(-1.0, 1.0), "correlation of spot and variance")]


@dataclass(frozen=True, slots=True)
class Cev(Model):
    """dS = (r - q) S dt + scale S^beta dW, absorbed at 0."""

    takes_vol: ClassVar[bool] = False
    assets: ClassVar[int] = 1

    scale: Annotated[float, Part(number(0.0), "volatility at S = 1", "delta")]
    beta: Annotated[float, Part(number(0.0, 1.0), "elasticity")]


@dataclass(frozen=True, slots=True)
class Displaced(Model):
    """dF = vol (F + shift) dW for the forward F to expiry."""

    assets: ClassVar[int] = 1

    shift: Annotated[float, Part(number(), "displacement")]


@dataclass(frozen=True, slots=True)
class LocalVol(Model):
    """dS = (r - q) S dt + vol(t, S) S dW. The grid is linear in S between its spots and flat outside.

    ``vols[i][j]`` belongs to ``times[i]`` and ``spots[j]``; row i holds until times[i], the last for ever.
    """

    takes_vol: ClassVar[bool] = False
    assets: ClassVar[int] = 1

    times: Annotated[tuple[float, ...], Part(listing(number(above=0.0), 1, 512), "ends of the rows")]
    spots: Annotated[tuple[float, ...], Part(listing(number(above=0.0), 1, 512), "spots of the columns")]
    vols: Annotated[
        tuple[tuple[float, ...], ...], Part(listing(listing(number(0.0, 100.0), 1, 512), 1, 512), "the grid")
    ]


MODELS: dict[str, type[Model]] = {
    "black_scholes": BlackScholes,
    "merton": MertonJumps,
    "heston": Heston,
    "cev": Cev,
    "displaced": Displaced,
    "local_vol": LocalVol,
}
MODEL_NAMES: dict[type[Model], str] = {model: name for name, model in MODELS.items()}


@dataclass(frozen=True, slots=True)
class _ModelRequest:
    name: Annotated[str, Part(choice(*MODELS), "name of the model")]
    params: Annotated[object, Part(lambda value, path, context: value, "its parameters")] = None


def read_model(value: object, path: str, context: Context) -> Model:
    """``{"name": "heston", "params": {"v0": 0.04, …}}``."""
    request = read_fields(_ModelRequest, require_mapping(value, path), path, context)
    params = {} if request.params is None else require_mapping(request.params, join(path, "params"))
    model = read_fields(MODELS[request.name], params, join(path, "params"), context)
    if context.assets > model.assets:
        raise SpecError(
            join(path, "name"), request.name, f"moves {model.assets} asset; S has {context.assets}"
        )
    if isinstance(model, LocalVol):
        _check_grid(model, join(path, "params"))
    if isinstance(model, MertonJumps):
        _check_jumps(model, join(path, "params"), context.expiry)
    return model


def _check_jumps(model: MertonJumps, path: str, expiry: float) -> None:
    """SpecError where jumps move the forward further than doubles reach, or are too many to be summed."""
    expected = model.intensity * expiry
    if expected > MOST_JUMPS:
        raise SpecError(join(path, "lam"), model.intensity, f"must be at most {MOST_JUMPS:g} / T")
    growth = expected * expm1(model.mean + 0.5 * model.deviation**2)
    if abs(growth) > LARGEST_GROWTH:
        rule = f"must keep the growth lam T (exp(mu_j + sigma_j^2 / 2) - 1) within {LARGEST_GROWTH:g} of 0"
        raise SpecError(path, growth, rule)


def _check_grid(model: LocalVol, path: str) -> None:
    require_rising(model.times, join(path, "times"))
    require_rising(model.spots, join(path, "spots"))
    if len(model.vols) != len(model.times):
        raise SpecError(
            join(path, "vols"), len(model.vols), f"must have {len(model.times)} rows, one for each time"
        )
    for i, row in enumerate(model.vols):
        if len(row) != len(model.spots):
            raise SpecError(f"{join(path, 'vols')}[{i}]", len(row), f"must have {len(model.spots)} items")
