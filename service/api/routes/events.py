"""A job's events: a page of JSON, or the stream."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from service.api.backend import backend_of, principal_of
from service.api.log import GapError
from service.api.stream import EventStream, event_frames
from service.api.views import job_view
from service.errors import GoneError, NotFoundError, invalid_field

router = APIRouter(prefix="/v1/jobs", tags=["events"])

EVENT_STREAM = "text/event-stream"


@router.get(
    "/{job_id}/events",
    summary="Read or follow a job's events",
    responses={200: {"content": {"application/json": {}, EVENT_STREAM: {}}}},
)
async def get_events(
    request: Request,
    job_id: str,
    after: Annotated[int | None, Query(ge=0, le=2**53, description="only events after this seq")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="most events of a page")] = 100,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """With ``Accept: text/event-stream`` a stream that begins after ``Last-Event-ID`` or ``after``.

    Each event has its seq as id. ``event: reset`` says that the cursor is of another history; ``event: end``
    is last.
    """
    backend, principal = backend_of(request), principal_of(request)
    job = await backend.job(job_id, principal)
    if EVENT_STREAM in request.headers.get("accept", ""):
        cursor = _cursor(last_event_id, after)

        async def snapshot() -> dict[str, Any] | None:
            try:
                return job_view(await backend.job(job_id, principal))
            except NotFoundError:
                return None

        return EventStream(event_frames(backend.hub.view(job_id, cursor), snapshot))
    try:
        events = await backend.log.read(job_id, after or 0, limit)
    except GapError as error:
        events = error.before
        if not events:
            raise GoneError(
                f"Events after {after or 0} are gone.", code="stale-cursor", param="after"
            ) from error
    last = events[-1].seq if events else (after or 0)
    body = b'{"object":"list","data":[%s],"last_seq":%d,"has_more":%s}' % (
        b",".join(event.line for event in events),
        last,
        b"true" if last < job.seq else b"false",
    )
    return Response(body, media_type="application/json")


def _cursor(last_event_id: str | None, after: int | None) -> int:
    """The seq after which the stream begins; the header is of the later wish."""
    if last_event_id:
        if not last_event_id.isdecimal() or len(last_event_id) > 16:
            raise invalid_field("Last-Event-ID", last_event_id, "must be the seq of an event")
        return int(last_event_id)
    return after or 0
