"""Jobs: create, list, read, and what can be asked of one."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from service.api.answers import gives, gives_nothing
from service.api.backend import backend_of, principal_of
from service.api.encoding import JsonResponse
from service.api.filters import METADATA_PARAMETER, Filters
from service.api.openapi import json_body
from service.api.pages import Page, check_cursor
from service.api.requests import parse, read_body
from service.api.submit import JobRequest, Options, Submission, Submitted, find_kind, prepare, submit
from service.api.views import job_view
from service.api.waiting import until_ended
from service.errors import ConflictError, NotFoundError
from service.jobs import calls, listing
from service.jobs.records import JobRecord, Json
from service.specs import Prepared
from service.wire import Estimate, Job, JobPage

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

LONGEST_WAIT_S = 60
PREFER_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])")


def wait_of(request: Request) -> int:
    """Seconds that ``Prefer: wait=N`` asks to wait for the job's end, at most 60; 0 without it."""
    found = PREFER_WAIT.search(request.headers.get("prefer", ""))
    return min(int(found[1]), LONGEST_WAIT_S) if found else 0


@router.post(
    "",
    openapi_extra=json_body("JobRequest"),
    summary="Create a job",
    **gives(Job | Estimate, 202, 200, problems=(409, 429), located=True),
)
async def create_job(
    request: Request,
    dry_run: Annotated[bool, Query(description="only check and price the spec")] = False,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> Response:
    """Queues a job, or with ``dry_run`` answers what the spec means and costs."""
    backend, principal = backend_of(request), principal_of(request)
    body = parse(JobRequest, await read_body(request))
    prepared = await prepare(backend, principal, body.kind, body.spec)
    if dry_run:
        return JsonResponse(
            {
                "object": "job.estimate",
                "kind": body.kind,
                "spec": prepared.spec,
                "lane": prepared.lane,
                "estimate": prepared.estimate,
            }
        )
    new = Submission(body.kind, prepared, body, idempotency_key=idempotency_key, body=body)
    return await created(request, await submit(backend, principal, new))


async def created(request: Request, submitted: Submitted) -> Response:
    """The answer to a request that made a job: at once, or at its end if the client prefers to wait."""
    backend, job, place = backend_of(request), submitted.job, submitted.place
    headers = {"Location": f"/v1/jobs/{job.id}", **submitted.quota}
    if submitted.replayed:
        headers["Idempotency-Replayed"] = "true"
    if seconds := wait_of(request):
        await until_ended(backend, job.id, 0, seconds)
        job = await backend.job(job.id, principal_of(request))
        headers["Preference-Applied"] = f"wait={seconds}"
        place = await backend.place(job)
    return JsonResponse(job_view(job, place), 200 if job.is_terminal else 202, headers)


@router.get("", openapi_extra=METADATA_PARAMETER, summary="List jobs, newest first", **gives(JobPage))
async def list_jobs(request: Request, page: Page, wanted: Filters) -> dict[str, Any]:
    """A page of the jobs that fit every filter; ephemeral ones are never listed."""
    check_cursor(page, "job")
    call = listing.list_jobs(
        principal_of(request).sees,
        wanted,
        after=page.after,
        descending=page.descending,
        limit=page.limit + 1,
    )
    backend = backend_of(request)
    found = await calls.arun(backend.redis, call)
    shown = found[: page.limit]
    places = await backend.places(shown)
    data = [job_view(job, places[job.id]) for job in shown]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(found) > page.limit,
    }


@router.get("/{job_id}", summary="Read a job", **gives(Job, 200, 304))
async def get_job(request: Request, job_id: str) -> Response:
    """The job object; with ``Prefer: wait`` when it has ended or the time is over."""
    backend, principal = backend_of(request), principal_of(request)
    job = await backend.job(job_id, principal)
    seconds = wait_of(request)
    if seconds and not job.is_terminal:
        await until_ended(backend, job_id, job.seq, seconds)
        job = await backend.job(job_id, principal)
    place = await backend.place(job)
    headers = {"ETag": f'"{job.state}-{job.seq}-{place.place}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return JsonResponse(job_view(job, place), headers=headers)


async def _ask(request: Request, job_id: str, call: calls.Call[calls.Changed | None]) -> calls.Changed:
    """Runs a call on a job that the caller may see, and wakes its lane."""
    backend = backend_of(request)
    await backend.job(job_id, principal_of(request))
    changed = await calls.arun(backend.redis, call)
    if changed is None:
        raise NotFoundError(f"There is no job {job_id!r}.", code="unknown-job", param="job_id")
    backend.waker.wake(changed.lane, changed.missing_tickets)
    return changed


async def _shown(request: Request, job_id: str, status: int) -> Response:
    backend = backend_of(request)
    job = await backend.job(job_id, principal_of(request))
    return JsonResponse(job_view(job, await backend.place(job)), status)


@router.post("/{job_id}/cancel", summary="Ask a job to end", **gives(Job, 200, 202))
async def cancel_job(request: Request, job_id: str) -> Response:
    """200 when it has ended, now or before; 202 while its worker has not confirmed."""
    changed = await _ask(request, job_id, calls.cancel(job_id))
    return await _shown(request, job_id, 202 if changed.state == "cancelling" else 200)


@router.post(
    "/{job_id}/pause", summary="Ask a job to checkpoint and wait", **gives(Job, 202, problems=(409,))
)
async def pause_job(request: Request, job_id: str) -> Response:
    """409 when it has ended or is being cancelled."""
    changed = await _ask(request, job_id, calls.pause(job_id))
    if not changed.done:
        raise ConflictError(f"The job is {changed.state}: only queued and running jobs pause.", code="state")
    return await _shown(request, job_id, 202)


@router.post("/{job_id}/resume", summary="Queue a paused job again", **gives(Job, 202, problems=(409,)))
async def resume_job(request: Request, job_id: str) -> Response:
    """409 when it has ended or is being cancelled."""
    changed = await _ask(request, job_id, calls.resume(job_id))
    if not changed.done:
        raise ConflictError(f"The job is {changed.state}: only paused jobs resume.", code="state")
    return await _shown(request, job_id, 202)


async def _again(request: Request, old: JobRecord, spec: Json, how: str, key: str | None) -> Response:
    """Queues a new job like an old one; ``how`` ends the path, and ``<how>_of`` of the new names the old."""
    backend, principal = backend_of(request), principal_of(request)
    find_kind(old.kind)
    options = Options(
        name=old.name,
        metadata=old.metadata,
        priority=old.priority,
        timeout_s=int(old.timeout_s),
        max_attempts=old.max_attempts,
        resume="any" if old.resume == "any" else "same",
    )
    new = Submission(
        old.kind,
        Prepared(spec, old.estimate, old.lane),
        options,
        idempotency_key=key,
        path=f"/v1/jobs/{old.id}/{how}",
        retry_of=old.id if how == "retry" else "",
        repeat_of=old.id if how == "repeat" else "",
    )
    return await created(request, await submit(backend, principal, new))


@router.post(
    "/{job_id}/retry",
    summary="Go on with a failed or cancelled job as a new one",
    **gives(Job, 202, 200, problems=(409, 429), located=True),
)
async def retry_job(
    request: Request, job_id: str, idempotency_key: Annotated[str | None, Header()] = None
) -> Response:
    """The new job has the same spec and ``retry_of``; it goes on from the last whole checkpoint, if any."""
    old = await backend_of(request).job(job_id, principal_of(request))
    if old.state not in ("failed", "cancelled"):
        raise ConflictError(f"The job is {old.state}: only failed and cancelled jobs retry.", code="state")
    return await _again(request, old, old.spec, "retry", idempotency_key)


@router.post(
    "/{job_id}/repeat",
    summary="Do a job once more, from its beginning",
    **gives(Job, 202, 200, problems=(409, 429), located=True),
)
async def repeat_job(
    request: Request, job_id: str, idempotency_key: Annotated[str | None, Header()] = None
) -> Response:
    """The new job has the stored spec and ``repeat_of``; it publishes nothing and gives the same result."""
    old = await backend_of(request).job(job_id, principal_of(request))
    if old.state != "succeeded":
        raise ConflictError(f"The job is {old.state}: only succeeded jobs repeat.", code="state")
    spec = {name: None if name == "publish_as" else value for name, value in old.spec.items()}
    return await _again(request, old, spec, "repeat", idempotency_key)


@router.delete("/{job_id}", summary="Delete a job that has ended", **gives_nothing(problems=(409,)))
async def delete_job(request: Request, job_id: str) -> Response:
    """409 while it has not ended."""
    changed = await _ask(request, job_id, calls.remove(job_id))
    if not changed.done:
        raise ConflictError(f"The job is {changed.state}: cancel it first.", code="state")
    return Response(status_code=204)
