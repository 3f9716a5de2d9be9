"""Prices: exact where there is a formula, simulated where that is asked for or none exists, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite

from engine.pricing import deterministic
from engine.pricing.analytic.exact import exact
from engine.pricing.analytic.exact import known as known_price
from engine.pricing.analytic.method import UnknownError
from engine.pricing.bias import bias_of
from engine.pricing.checks import checks
from engine.pricing.implied import implied_vol
from engine.pricing.limits import check_priceable
from engine.pricing.montecarlo.draws import LAYOUT, RNG
from engine.pricing.montecarlo.dual import has_dual, upper_bound
from engine.pricing.montecarlo.estimate import Mean
from engine.pricing.montecarlo.greeks import method_of, refusal
from engine.pricing.montecarlo.program import program_of
from engine.pricing.montecarlo.run import Part, Simulated, combined, simulated, simulated_shard
from engine.pricing.montecarlo.settings import settings_of
from engine.pricing.montecarlo.shifts import wanted
from engine.pricing.montecarlo.smoothing import is_at_end, is_smoothed
from engine.pricing.montecarlo.tilt import is_tilted, is_wide
from engine.pricing.payoff_language import read_payoff
from engine.pricing.result import (
    UNITS,
    Draws,
    Estimate,
    Exact,
    Greek,
    ImpliedVolResult,
    Result,
)
from engine.pricing.spec import Spec, SpecError, describe
from engine.pricing.spec import products as p

WIDEST = 900.0  # variance of a logarithm: thirty standard deviations of one reach 10^195

Progress = Callable[[Estimate], None]


def price(spec: Spec, progress: Progress | None = None) -> Result | ImpliedVolResult:
    """The answer to a request: see ``Result``.

    With ``method`` auto a simulation runs where its settings are given or nothing exact is known; the exact
    price, where there is one, stands beside it. ``progress`` hears of running estimates. Raises SpecError for
    a custom payoff that is no expression, for closed_form where there is none, and for a contract that leads
    to numbers beyond those of a double.
    """
    try:
        return _price(spec, progress)
    except SpecError:
        raise
    except (ArithmeticError, ValueError) as error:  # the latter for a logarithm of what has vanished
        rule = f"must not lead to numbers that no double holds: {error}"
        raise SpecError("instrument", spec.instrument, rule) from error


def _price(spec: Spec, progress: Progress | None) -> Result | ImpliedVolResult:
    if isinstance(spec.product, p.ImpliedVol):
        return implied_vol(spec)
    check_priceable(spec)
    if isinstance(spec.product, p.Custom):
        read_payoff(spec)
    try:
        known, reason = known_price(spec), ""
    except UnknownError as error:
        known, reason = None, str(error)
    if is_exact(spec, known):
        if known is None:
            raise SpecError("method", spec.method, f"must not be closed_form: {reason}")
        return _exact_result(spec, known)
    return _result(spec, simulated(spec, progress), known)


def is_exact(spec: Spec, known: Exact | None) -> bool:
    """Whether a request is answered without a simulation."""
    if spec.method == "closed_form":
        return True
    if isinstance(spec.product, deterministic.PRODUCTS) and deterministic.is_deterministic(spec):
        return True
    if known is not None and (_is_beyond_floats(spec) or _is_settled_today(spec)):
        return True
    return spec.method == "auto" and spec.simulation is None and known is not None


def _is_settled_today(spec: Spec) -> bool:
    """Whether what the contract turns into is decided now."""
    product = spec.product
    return (isinstance(product, p.Chooser) and product.choice == 0.0) or (
        isinstance(product, p.Compound) and product.start == 0.0
    )


def _is_beyond_floats(spec: Spec) -> bool:
    """Whether the assets spread over more orders of magnitude than numbers have."""
    if not spec.market.vols:
        return False
    return any(spec.market.variance(asset, 0.0, spec.expiry) > WIDEST for asset in range(spec.market.assets))


def price_shard(spec: Spec, number: int, shards: int) -> Part:
    """The sums of shard ``number`` of ``shards`` of a request; ``combine`` makes the answer of them."""
    if not 0 <= number < shards:
        raise ValueError(f"shard is {number}; it must be from 0 below {shards}")
    return simulated_shard(spec, number, shards)


def combine(parts: Sequence[Part]) -> Result:
    """The answer from all shards of one request: the same bits as from ``price``."""
    found = combined(parts)
    spec = parts[0].spec
    return _result(spec, found, exact(spec))


def _exact_result(spec: Spec, known: Exact) -> Result:
    return Result(
        price=known.value,
        method=known.method,
        bias="none: the price is exact up to rounding",
        spec=describe(spec),
        hash=spec.hash(),
        ci95=(known.value, known.value),
        closed_form=known,
        greeks=known.greeks,
        checks=checks(spec, known.value, 0.0),
    )


def _result(spec: Spec, found: Simulated, known: Exact | None) -> Result:
    spec = replace(spec, simulation=settings_of(spec))
    settings = spec.simulation
    assert settings is not None
    program = program_of(spec)
    own = found.means[0]
    half = found.half_width * own.se
    error = None if known is None else own.value - known.value
    steps = found.paths * program.needs.dates
    return Result(
        price=own.value,
        method=_method(spec),
        bias=bias_of(spec),
        spec=describe(spec),
        hash=spec.hash(),
        se=own.se,
        ci95=(own.value - half, own.value + half),
        n_paths=found.paths,
        n_effective=found.samples,
        draws=Draws(settings.seed, "sobol, owen scrambled" if settings.qmc == "sobol" else RNG, LAYOUT),
        closed_form=known,
        upper=upper_bound(spec) if settings.dual and has_dual(spec) else None,
        z=None if error is None or not 0.0 < own.se < inf else error / own.se,
        greeks=_greeks(spec, found),
        convergence=found.convergence,
        checks=checks(spec, own.value, own.se),
        seconds=found.seconds,
        path_steps_per_s=steps / found.seconds if found.seconds > 0.0 else None,
        warnings=(*found.warnings, *_warnings(spec, own)),
    )


def _warnings(spec: Spec, own: Mean) -> tuple[str, ...]:
    settings = settings_of(spec)
    found = []
    if settings.dual and not has_dual(spec):
        found.append("no dual bound: it is for early exercise on one asset under black_scholes")
    if is_wide(spec) and not is_tilted(spec):
        found.append("so wide a law has its mean on paths that draws seldom meet: the error may not tell")
    if not isfinite(own.value):
        found.append("no price: the payoff is not finite on some path")
    elif not isfinite(own.se):
        found.append("no standard error: it takes more paths")
    return tuple(found)


def _method(spec: Spec) -> str:
    settings = settings_of(spec)
    parts = ["quasi-Monte Carlo" if settings.qmc == "sobol" else "Monte Carlo"]
    if isinstance(spec.product, p.American | p.Bermudan | p.MaxCall):
        parts.append("least-squares exercise rule from separate paths")
    if is_tilted(spec):
        parts.append("importance sampling")
    if is_smoothed(spec):
        parts.append("conditional on all but the asset" if is_at_end(spec) else "conditional on survival")
    if settings.antithetic:
        parts.append("antithetic pairs")
    if settings.moment_matching:
        parts.append("matched moments")
    if settings.bridge != "none":
        parts.append("Brownian bridge" if settings.bridge == "brownian" else "principal components")
    control = program_of(spec).control
    if control is not None:
        parts.append(f"control variate: {control.name}")
    return ", ".join(parts)


def _greeks(spec: Spec, found: Simulated) -> Mapping[str, Greek]:
    estimated = iter(found.means[1:])
    greeks = {}
    for column in wanted(spec.greeks, spec.market.assets):
        unit = UNITS[column.name.rstrip("0123456789") if column.name != "dv0" else "dv0"]
        reason = refusal(spec, column)
        if reason is not None:
            greeks[column.name] = Greek(None, reason, unit)
        else:
            mean = next(estimated)
            if isfinite(mean.value):
                greeks[column.name] = Greek(mean.value, method_of(spec, column), unit, mean.se)
            else:
                greeks[column.name] = Greek(None, "samples lead to numbers that no double holds", unit)
    return greeks
