"""What a job leaves behind, as files."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.answers import gives, gives_content
from service.api.backend import backend_of, principal_of
from service.api.download import blob_response
from service.errors import NotFoundError
from service.jobs.records import JobRecord, Json
from service.wire import ArtifactList

router = APIRouter(prefix="/v1/jobs", tags=["artifacts"])


def artifacts(job: JobRecord) -> list[Json]:
    """What the job's result lists: name, media type, size and blob of each."""
    found: list[Json] = (job.result or {}).get("artifacts", [])
    return found


def artifact_view(job: JobRecord, artifact: Json) -> dict[str, Any]:
    """The artifact object. Its id is its content's name, so it can be kept for ever."""
    blob = artifact["blob"]
    return {
        "object": "artifact",
        "id": blob,
        "name": artifact["name"],
        "type": artifact["type"],
        "bytes": artifact["bytes"],
        "sha256": blob,
        "links": {"content": f"/v1/jobs/{job.id}/artifacts/{blob}/content"},
    }


@router.get("/{job_id}/artifacts", summary="List a job's artifacts", **gives(ArtifactList))
async def list_artifacts(request: Request, job_id: str) -> dict[str, Any]:
    """Files that the job made; none before it has succeeded."""
    job = await backend_of(request).job(job_id, principal_of(request))
    data = [artifact_view(job, artifact) for artifact in artifacts(job)]
    return {"object": "list", "data": data, "has_more": False}


@router.get(
    "/{job_id}/artifacts/{artifact_id}/content",
    summary="Download an artifact",
    response_class=Response,
    **gives_content("application/octet-stream"),
)
async def get_artifact(request: Request, job_id: str, artifact_id: str) -> Response:
    """The bytes, with ranges and a strong ETag; always as a download, whatever their type."""
    backend = backend_of(request)
    job = await backend.job(job_id, principal_of(request))
    artifact = next((each for each in artifacts(job) if each["blob"] == artifact_id), None)
    if artifact is None:
        detail = f"The job has no artifact {artifact_id!r}."
        raise NotFoundError(detail, code="unknown-artifact", param="artifact_id")
    return await blob_response(request, backend.blobs, artifact["blob"], artifact["name"])
