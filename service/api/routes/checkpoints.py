"""A job's checkpoints."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.answers import gives, gives_content
from service.api.backend import answer, backend_of, principal_of
from service.api.download import blob_response
from service.errors import GoneError
from service.jobs.records import checkpoints, key
from service.wire import CheckpointList

router = APIRouter(prefix="/v1/jobs", tags=["checkpoints"])


@router.get("/{job_id}/checkpoints", summary="List a job's checkpoints", **gives(CheckpointList))
async def list_checkpoints(request: Request, job_id: str) -> dict[str, Any]:
    """Manifests in order of their steps; ``whole`` ones can be resumed from, the others hold weights only.

    ``best`` is the one with the lowest validation loss.
    """
    backend = backend_of(request)
    await backend.job(job_id, principal_of(request))
    manifests = checkpoints(await answer(backend.redis.hgetall(key("job", job_id, "checkpoints"))))
    evaluated = [each for each in manifests if each.get("val_loss") is not None]
    best = min(evaluated, key=lambda each: float(each["val_loss"]), default=None)
    data = [
        {
            "object": "checkpoint",
            **each,
            "whole": "optimizer" in each,
            "best": each is best,
            "links": {"weights": f"/v1/jobs/{job_id}/checkpoints/{each['step']}/weights"},
        }
        for each in manifests
    ]
    return {"object": "list", "data": data, "has_more": False}


@router.get(
    "/{job_id}/checkpoints/{step}/weights",
    summary="Download a checkpoint's weights",
    response_class=Response,
    **gives_content("application/octet-stream"),
)
async def get_weights(request: Request, job_id: str, step: int) -> Response:
    """The weights as safetensors, with ranges."""
    backend = backend_of(request)
    await backend.job(job_id, principal_of(request))
    manifest = await answer(backend.redis.hget(key("job", job_id, "checkpoints"), str(step)))
    if manifest is None:
        raise GoneError(f"The job has no checkpoint of step {step} (any more).", param="step")
    name = f"{job_id}-step-{step}.safetensors"
    return await blob_response(request, backend.blobs, json.loads(manifest)["weights"], name)
