"""A whole request: a product, its market and model, and what is asked about it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from typing import Annotated, Any, Literal

from engine.pricing.spec.curve import Curve
from engine.pricing.spec.fields import (
    Constants,
    Context,
    Part,
    SpecError,
    choice,
    flag,
    listing,
    nested,
    number,
    parts,
    read_fields,
    require_mapping,
)
from engine.pricing.spec.market import Market, read_market
from engine.pricing.spec.models import BLACK_SCHOLES, MODEL_NAMES, Model, read_model
from engine.pricing.spec.products import (
    NAMES,
    PRODUCTS,
    Basket,
    Chooser,
    Compound,
    Custom,
    DoubleBarrier,
    ForwardStart,
    ImpliedVol,
    Product,
)
from engine.pricing.spec.schedule import Averaging, Monitoring, Schedule
from engine.pricing.spec.simulation import Simulation

LEAST_EXPIRY = 1e-12  # years: thirty microseconds
DAYS = {"ACT/365F": 365.0, "ACT/360": 360.0}
GREEKS = ("delta", "gamma", "vega", "theta", "rho", "div_rho", "vanna", "volga", "dv0", "corr_sens")


@dataclass(frozen=True, slots=True)
class Spec:
    """A checked request. ``expiry`` is T in years; ``simulation`` None leaves its settings to the engine."""

    product: Product
    expiry: float
    market: Market
    model: Model
    method: Literal["auto", "closed_form", "monte_carlo"] = "auto"
    simulation: Simulation | None = None
    greeks: tuple[str, ...] = ()
    convergence: bool = False
    allow_extreme: bool = False

    @property
    def spot(self) -> float:
        return self.market.spots[0]

    @property
    def instrument(self) -> str:
        return NAMES[type(self.product)]

    def hash(self) -> str:
        """sha256 of the canonical request, in hexadecimal."""
        return hashlib.sha256(json.dumps(describe(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Asked:
    instrument: Annotated[str, Part(choice(*PRODUCTS), "name of the product")]
    model: Annotated[Model, Part(read_model, "how the assets move")] = BLACK_SCHOLES
    method: Annotated[
        Literal["auto", "closed_form", "monte_carlo"],
        Part(
            choice("auto", "closed_form", "monte_carlo"),
            "auto: both where a closed form exists and a simulation is asked for",
        ),
    ] = "auto"
    simulation: Annotated[Simulation | None, Part(nested(Simulation), "how it is simulated", "mc")] = None
    greeks: Annotated[tuple[str, ...], Part(listing(choice(*GREEKS), 0, len(GREEKS)), "Greeks wanted")] = ()
    convergence: Annotated[bool, Part(flag, "whether running estimates are kept")] = False
    allow_extreme: Annotated[bool, Part(flag, "whether rates beyond 100 % are meant")] = False


_ASKED = set(parts(_Asked))
_MARKET = set(parts(Market))
_EXPIRY = ("T", "valuation_date", "expiry_date", "day_count")


def read_spec(request: Mapping[str, Any]) -> Spec:
    """The spec that a request, as parsed from JSON, describes. SpecError names path, value and rule."""
    request = require_mapping(request, "request")
    allow_extreme = flag(request.get("allow_extreme", False), "allow_extreme", Context(0.0, 1))
    spots = request.get("S")
    assets = len(spots) if isinstance(spots, list | tuple) else 1
    kind = _read_instrument(request)
    own = set(parts(kind))
    context = Context(_read_expiry(request), assets, allow_extreme)

    asked = read_fields(_Asked, {k: v for k, v in request.items() if k in _ASKED}, "", context)
    _check_assets(asked.instrument, kind, assets)

    market = read_market({k: v for k, v in request.items() if k in _MARKET}, context)
    takes_vol = asked.model.takes_vol and kind is not ImpliedVol
    if takes_vol and not market.vols:
        raise SpecError("vol", None, "must be given")
    if market.vols and not takes_vol:
        owner = asked.instrument if kind is ImpliedVol else f"model {MODEL_NAMES[type(asked.model)]}"
        raise SpecError("vol", request["vol"], f"must not be given for {owner}")
    product = read_fields(kind, {k: v for k, v in request.items() if k in own}, "", context)
    _check_product(product, context)
    return Spec(
        product,
        context.expiry,
        market,
        asked.model,
        asked.method,
        asked.simulation,
        tuple(dict.fromkeys(asked.greeks)),
        asked.convergence,
        allow_extreme,
    )


def _read_instrument(request: Mapping[str, Any]) -> type[Product]:
    """The product that is asked for; only its fields may be there, so what is misspelt isn't missing."""
    nothing = Context(0.0, 1)
    known = _ASKED | _MARKET | {*_EXPIRY}
    if "instrument" not in request:
        fields = known.union(*map(parts, PRODUCTS.values()))
        for name in request:
            if name not in fields:
                raise SpecError(name, request[name], "is not a field of a contract")
        raise SpecError("instrument", None, f"must be given: one of {', '.join(PRODUCTS)}")
    instrument = choice(*PRODUCTS)(request["instrument"], "instrument", nothing)
    own = parts(PRODUCTS[instrument])
    for name in request:
        if name not in known and name not in own:
            raise SpecError(
                name, request[name], f"is not a field of {instrument}; its own are {', '.join(own)}"
            )
    return PRODUCTS[instrument]


def _read_expiry(request: Mapping[str, Any]) -> float:
    nothing = Context(0.0, 1)
    if "T" in request:
        for name in _EXPIRY[1:]:
            if name in request:
                raise SpecError(name, request[name], "must not be given beside T")
        expiry: float = number(0.0, 200.0)(request["T"], "T", nothing)
        if 0.0 < expiry < LEAST_EXPIRY:
            raise SpecError("T", expiry, f"must be 0 or at least {LEAST_EXPIRY:g}")
        return expiry
    if "expiry_date" not in request:
        raise SpecError("T", None, "must be given, or valuation_date and expiry_date")
    start, end = (_read_date(request.get(name), name) for name in ("valuation_date", "expiry_date"))
    basis = choice(*DAYS)(request.get("day_count", "ACT/365F"), "day_count", nothing)
    if end < start:
        raise SpecError("expiry_date", request["expiry_date"], "must not lie before valuation_date")
    return (end - start).days / DAYS[basis]


def _read_date(value: object, path: str) -> date:
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise SpecError(path, value, "must be a date such as 2026-03-31") from None


def _check_assets(name: str, kind: type[Product], assets: int) -> None:
    least, most = kind.assets
    if not least <= assets <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise SpecError("S", assets, f"must have {wanted} spots for {name}")


def _check_product(product: Product, context: Context) -> None:
    """Rules between fields."""
    if isinstance(product, Custom) and context.expiry == 0.0:
        raise SpecError("T", 0.0, "must be greater than 0 for custom")
    if isinstance(product, ForwardStart | Compound) and product.start > context.expiry:
        name = "t_start" if isinstance(product, ForwardStart) else "t_mother"
        raise SpecError(name, product.start, f"must not lie after T ({context.expiry:g})")
    if isinstance(product, Chooser) and product.choice > context.expiry:
        raise SpecError("t_choose", product.choice, f"must not lie after T ({context.expiry:g})")
    if isinstance(product, DoubleBarrier) and product.barrier.lower >= product.barrier.upper:
        raise SpecError(
            "barrier.upper", product.barrier.upper, f"must exceed lower ({product.barrier.lower:g})"
        )
    if isinstance(product, Basket) and product.weights is not None:
        if len(product.weights) != context.assets:
            raise SpecError(
                "weights", list(product.weights), f"must have {context.assets} items, one for each asset"
            )
        if product.mean == "geometric" and abs(sum(product.weights) - 1.0) > 1e-9:
            raise SpecError("weights", list(product.weights), "must sum to 1 for a geometric mean")


# ---- the canonical request


def describe(spec: Spec) -> dict[str, Any]:
    """The canonical request: every field written out, dates as times. ``read_spec`` gives ``spec`` again."""
    described: dict[str, Any] = {"instrument": spec.instrument, "T": spec.expiry}
    described |= _describe_fields(spec.market)
    described |= _describe_fields(spec.product)
    described["model"] = {"name": MODEL_NAMES[type(spec.model)], "params": _describe_fields(spec.model)}
    if not spec.market.vols:
        del described["vol"]
    if spec.simulation is not None:
        described["mc"] = _describe_fields(spec.simulation)
    described |= {"method": spec.method, "greeks": list(spec.greeks), "convergence": spec.convergence}
    return described | {"allow_extreme": spec.allow_extreme}


def _describe_fields(part: Any) -> dict[str, Any]:
    return {wire: _describe(getattr(part, name)) for wire, (name, _, _) in parts(type(part)).items()}


def _describe(value: Any) -> Any:
    if isinstance(value, Curve):
        if value.is_constant:
            return value.values[0]
        return {"until": list(value.until), "values": list(value.values)}
    if isinstance(value, Constants):
        return dict(value.pairs)
    if isinstance(value, Schedule | Monitoring | Averaging):
        return {field.name: _describe(getattr(value, field.name)) for field in fields(value)}
    if is_dataclass(value):
        return _describe_fields(value)
    if isinstance(value, tuple):
        return [_describe(item) for item in value]
    return value


__all__ = ["DAYS", "GREEKS", "Spec", "SpecError", "describe", "read_spec"]
