"""A job's log as plain text."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.api.answers import gives_content
from service.api.backend import backend_of, principal_of
from service.api.download import bytes_response
from service.errors import GoneError

router = APIRouter(prefix="/v1/jobs", tags=["events"])


@router.get(
    "/{job_id}/logs",
    summary="Read a job's log as text",
    response_class=Response,
    **gives_content("text/plain"),
)
async def get_logs(request: Request, job_id: str) -> Response:
    """States, stages, logs, checkpoints and samples, a line each, with ranges: ``bytes=-4096`` is the end.

    A range that begins where the text ends is 416 until there is more.
    """
    backend = backend_of(request)
    job = await backend.job(job_id, principal_of(request))
    text = (await backend.texts.of(job)).text
    if not text:
        raise GoneError("The log has expired.")
    return bytes_response(request, text, f"{job_id}-{len(text)}", "text/plain; charset=utf-8")
