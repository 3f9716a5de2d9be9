"""A job's events: a page of JSON, or the stream."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from service.api.answers import EVENT_STREAM, gives, gives_stream
from service.api.backend import backend_of, principal_of, refusal_of
from service.api.changes import Place, read_place
from service.api.log import GapError
from service.api.stream import EventStream, Snapshot, event_frames, merged_frames
from service.api.views import job_view
from service.errors import GoneError, NotFoundError, invalid_field
from service.ids import is_id
from service.jobs.events import EVENT_TYPES
from service.wire import EventPage

router = APIRouter(tags=["events"])

MOST_JOBS = 32
ALL = "*"


@router.get(
    "/v1/jobs/{job_id}/events",
    summary="Read or follow a job's events",
    **gives(EventPage, stream=True, problems=(410,)),
)
async def get_events(
    request: Request,
    job_id: str,
    after: Annotated[int | None, Query(ge=0, le=2**53, description="only events after this seq")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="most events of a page")] = 100,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """With ``Accept: text/event-stream`` a stream that begins after ``Last-Event-ID`` or ``after``.

    Each event has its seq as id. ``event: reset`` says that the cursor is of another history, with the job as
    it is now; ``event: end`` is last.
    """
    backend, principal = backend_of(request), principal_of(request)
    job = await backend.job(job_id, principal)
    if EVENT_STREAM in request.headers.get("accept", ""):
        viewer = backend.hub.view(job_id, _cursor(last_event_id, after))
        return EventStream(event_frames(viewer, _snapshot(request)), refusal_of(request))
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


def _snapshot(request: Request) -> Snapshot:
    backend, principal = backend_of(request), principal_of(request)

    async def snapshot(job_id: str) -> dict[str, Any] | None:
        try:
            return job_view(await backend.job(job_id, principal))
        except NotFoundError:
            return None

    return snapshot


def _cursor(last_event_id: str | None, after: int | None) -> int:
    """The seq after which the stream begins; the header is of the later wish."""
    if last_event_id:
        if not last_event_id.isdecimal() or len(last_event_id) > 16:
            raise invalid_field("Last-Event-ID", last_event_id, "must be the seq of an event")
        return int(last_event_id)
    return after or 0


@router.get(
    "/v1/events",
    summary="Follow several jobs, or the list of all",
    response_class=EventStream,
    **gives_stream(problems=(404,)),
)
async def follow_events(
    request: Request,
    jobs: Annotated[str, Query(max_length=2048, description="ids, separated by commas, at most 32; or *")],
    after: Annotated[str, Query(max_length=4096, description="<job>:<seq>, separated by commas")] = "",
    types: Annotated[str, Query(max_length=256, description="types of events; all without it")] = "",
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """One stream for a page: the events of the jobs, with ids ``<job>:<seq>`` and their job in ``data``.

    With ``*`` the changes of state of all jobs that the list shows, ``deleted`` being the last. It begins
    with ``event: reset``: read the list now, then apply what follows. Its ids, and the ``after`` of that
    event, are cursors for ``after``.
    """
    backend, principal = backend_of(request), principal_of(request)
    if jobs == ALL:
        frames = backend.changes.frames(principal.sees, _place(last_event_id or after))
        return EventStream(frames, refusal_of(request))
    wanted = _types(types)
    ids = tuple(dict.fromkeys(part.strip() for part in jobs.split(",") if part.strip()))
    if not 1 <= len(ids) <= MOST_JOBS:
        raise invalid_field("jobs", f"{len(ids)} ids", f"must be 1 to {MOST_JOBS} ids, or *")
    cursors = _cursors(after) | _cursors(last_event_id or "")
    for job_id in ids:
        await backend.job(job_id, principal)
    viewers = [backend.hub.view(job_id, cursors.get(job_id, 0)) for job_id in ids]
    return EventStream(merged_frames(viewers, wanted, _snapshot(request)), refusal_of(request))


def _place(cursor: str) -> Place | None:
    """The cursor of a stream of changes; None without one."""
    if not cursor:
        return None
    if (place := read_place(cursor)) is None:
        raise invalid_field("after", cursor, "must be the id of an event of this stream")
    return place


def _cursors(given: str) -> dict[str, int]:
    """The seq after which the events of each job begin."""
    cursors = {}
    for part in filter(None, (part.strip() for part in given.split(","))):
        job, _, seq = part.partition(":")
        if not (is_id(job, "job") and seq.isdecimal() and len(seq) <= 16):
            raise invalid_field("after", part, "must be the id of an event of this stream, <job>:<seq>")
        cursors[job] = int(seq)
    return cursors


def _types(given: str) -> frozenset[str]:
    """The types of events that are wanted."""
    chosen = frozenset(part.strip() for part in given.split(",") if part.strip())
    for part in sorted(chosen - EVENT_TYPES):
        raise invalid_field("types", part, f"must be among {', '.join(sorted(EVENT_TYPES))}")
    return chosen or EVENT_TYPES
