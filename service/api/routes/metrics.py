"""A job's metric series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from service.api.answers import gives
from service.api.backend import backend_of, principal_of
from service.api.metrics import series_view
from service.wire import Metrics

router = APIRouter(prefix="/v1/jobs", tags=["metrics"])


@dataclass(frozen=True)
class Window:
    """The part of the series that is wanted."""

    points: int | None
    from_step: int | None
    to_step: int | None


def window(
    points: Annotated[
        int | None,
        Query(ge=4, le=100_000, description="thin each series of more than 200 points to about so many"),
    ] = None,
    from_step: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    to_step: Annotated[int | None, Query(ge=0, le=2**53)] = None,
) -> Window:
    """The parameters that choose it."""
    return Window(points, from_step, to_step)


@router.get("/{job_id}/metrics", summary="Read a job's metrics", **gives(Metrics))
async def get_metrics(
    request: Request,
    job_id: str,
    wanted: Annotated[Window, Depends(window)],
    keys: Annotated[str | None, Query(max_length=512, description="names, separated by commas")] = None,
) -> dict[str, Any]:
    """Columns of steps and values, one pair a series; what a later attempt repeated is shown once."""
    backend = backend_of(request)
    job = await backend.job(job_id, principal_of(request))
    series = (await backend.metrics.of(job)).series
    shown = {}
    for name in [name.strip() for name in keys.split(",")] if keys else list(series):
        if name in series:
            part = series[name].window(wanted.from_step, wanted.to_step)
            shown[name] = series_view(part if wanted.points is None else part.thinned(wanted.points))
    return {"object": "metrics", "job": job_id, "series": shown}
