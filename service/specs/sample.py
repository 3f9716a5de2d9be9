"""The spec of a sampling job, and what it costs."""

from __future__ import annotations

import secrets
from typing import Annotated, Literal

from pydantic import Field

from service.errors import InvalidFieldsError, invalid_field
from service.jobs.lanes import BATCH, QUICK
from service.specs.base import Catalogue, Prepared, Strict
from service.specs.limits import FLOPS_PER_S, TOKEN_S, check_caps
from service.specs.prompts import check_prompt

EXAMPLE = {"model": "bard", "prompt": "ROMEO:", "max_tokens": 100, "temperature": 0.8}
QUICK_S = 10.0  # a job estimated longer leaves the quick lane to others


class Sample(Strict):
    """Continues a prompt with a trained model."""

    model: str = Field(min_length=1, max_length=128, description="model id, alias, job, or job@step")
    prompt: str = Field("\n", min_length=1, max_length=65_536, description="what the text begins with")
    max_tokens: int = Field(200, ge=1, le=16_384, description="most tokens a continuation has")
    n: int = Field(1, ge=1, le=16, description="number of continuations")
    temperature: float = Field(1.0, ge=0, le=10, description="0 takes the likeliest token each time")
    top_k: int | None = Field(None, ge=1, le=100_000, description="only the k likeliest tokens")
    top_p: float = Field(1.0, gt=0, le=1, description="only the likeliest tokens of this total probability")
    seed: int | None = Field(None, ge=0, le=2**53, description="start of every random choice; else drawn")
    stop: list[Annotated[str, Field(min_length=1, max_length=256)]] = Field(
        [], max_length=4, description="texts before which a continuation ends"
    )
    window: Literal["half", "exact"] = Field("half", description="what is encoded again past the context")


async def prepare(spec: Sample, catalogue: Catalogue) -> Prepared:
    """Finds the model, fixes the seed, and prices the job. InvalidFieldsError where it can't run."""
    model = await catalogue.model(spec.model)
    if model is None:
        rule = "must be the id or alias of a model, or the job@step of a checkpoint"
        raise invalid_field("spec.model", spec.model, rule)
    if model.alphabet is not None and (errors := check_prompt("spec.prompt", spec.prompt, model.alphabet)):
        raise InvalidFieldsError(errors)
    tokens = spec.n * (len(spec.prompt) + spec.max_tokens)
    flops = 2 * model.parameters * tokens
    seconds = spec.n * spec.max_tokens * TOKEN_S + flops / FLOPS_PER_S
    estimate = {"parameters": model.parameters, "flops": flops, "seconds": round(seconds, 3)}
    check_caps(estimate)
    seed = secrets.randbits(31) if spec.seed is None else spec.seed
    lane = QUICK if estimate["seconds"] <= QUICK_S else BATCH
    return Prepared({**spec.model_dump(), "seed": seed, "weights": model.weights}, estimate, lane)
