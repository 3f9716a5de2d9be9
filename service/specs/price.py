"""The spec of a price job, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from engine.pricing.cost import cost_of
from engine.pricing.limits import check_priceable
from engine.pricing.payoff_language import read_payoff
from engine.pricing.spec import Spec, SpecError, describe, products, read_spec
from service.errors import invalid_field
from service.jobs.lanes import BATCH, QUICK
from service.specs.base import Catalogue, Prepared, Strict
from service.specs.limits import Cap, check_caps
from service.specs.sample import QUICK_S

EXAMPLE = {
    "contract": {
        "instrument": "european",
        "type": "call",
        "S": 100,
        "K": 105,
        "T": 1,
        "r": 0.03,
        "q": 0.01,
        "vol": 0.2,
    }
}
MOST_CONTRACTS = 1000
Contract = Annotated[dict[str, Any], Field(description="a contract and its market, as docs/pricing.md tells")]
CAPS = {
    "path_steps": Cap(1e13, "steps of paths", "take fewer paths, steps or contracts"),
    "memory_bytes": Cap(8 * 2**30, "bytes of memory", "take fewer steps or calibration paths"),
}


class Price(Strict):
    """Prices one contract, or many."""

    contract: Contract | None = None
    contracts: list[Contract] | None = Field(
        None, min_length=1, max_length=MOST_CONTRACTS, description="many contracts instead of one"
    )
    charts: bool = Field(True, description="whether a fan of paths and a histogram of payoffs are drawn")

    @model_validator(mode="after")
    def _one_or_many(self) -> Price:
        if (self.contract is None) == (self.contracts is None):
            raise ValueError("exactly one of contract and contracts must be given")
        return self


async def prepare(spec: Price, catalogue: Catalogue) -> Prepared:
    """Reads the contracts and prices the job. InvalidFieldsError where one breaks a rule."""
    if spec.contract is not None:
        read = [read_contract(spec.contract, "spec.contract")]
        written: dict[str, Any] = {"contract": describe(read[0]), "contracts": None}
    else:
        given = spec.contracts or []
        read = [read_contract(own, f"spec.contracts.{i}") for i, own in enumerate(given)]
        written = {"contract": None, "contracts": [describe(own) for own in read]}
    costs = [cost_of(own) for own in read]
    estimate = {
        "path_steps": sum(cost.path_steps for cost in costs),
        "memory_bytes": max(cost.memory_bytes for cost in costs),
        "seconds": round(sum(cost.seconds for cost in costs), 3),
    }
    check_caps(estimate, CAPS)
    lane = QUICK if estimate["seconds"] <= QUICK_S else BATCH
    return Prepared({**written, "charts": spec.charts}, estimate, lane)


def read_contract(given: Mapping[str, Any], path: str) -> Spec:
    """The checked contract. InvalidFieldsError with the field's path, behind ``path``."""
    try:
        spec = read_spec(given)
        check_priceable(spec)
        if isinstance(spec.product, products.Custom):
            read_payoff(spec)
    except SpecError as error:
        where = f"{path}.{error.path}" if path else error.path
        raise invalid_field(where, error.value, error.rule) from error
    return spec
