"""Jobs: create, list, read, and what can be asked of one."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import JSONResponse, Response

from service.api.backend import Backend, answer, backend_of, principal_of
from service.api.download import blob_response
from service.api.hub import End
from service.api.openapi import json_body
from service.api.pages import Page, check_cursor
from service.api.requests import parse, read_body
from service.api.submit import JobRequest, Options, Submission, Submitted, find_kind, prepare, submit
from service.api.views import job_view
from service.errors import ConflictError, GoneError, NotFoundError, invalid_field
from service.jobs import calls
from service.jobs.records import STATES, checkpoints, key
from service.specs import KINDS, Prepared

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

LONGEST_WAIT_S = 60
PREFER_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])")


def wait_of(request: Request) -> int:
    """Seconds that ``Prefer: wait=N`` asks to wait for the job's end, at most 60; 0 without it."""
    found = PREFER_WAIT.search(request.headers.get("prefer", ""))
    return min(int(found[1]), LONGEST_WAIT_S) if found else 0


async def wait_until_ended(backend: Backend, job_id: str, after: int, seconds: float) -> None:
    """Returns when the job has ended or the time is over."""
    try:
        async with asyncio.timeout(seconds), backend.hub.view(job_id, after) as viewer:
            async for step in viewer.steps():
                if isinstance(step, End):
                    return
    except TimeoutError:
        return


@router.post("", status_code=202, openapi_extra=json_body("JobRequest"), summary="Create a job")
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
        return JSONResponse(
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
    backend, job, position = backend_of(request), submitted.job, submitted.place
    headers = {"Location": f"/v1/jobs/{job.id}"}
    if submitted.replayed:
        headers["Idempotency-Replayed"] = "true"
    if seconds := wait_of(request):
        await wait_until_ended(backend, job.id, 0, seconds)
        job = await backend.job(job.id, principal_of(request))
        headers["Preference-Applied"] = f"wait={seconds}"
        position = await backend.queue_position(job)
    return JSONResponse(job_view(job, position), 200 if job.is_terminal else 202, headers)


def _listed(name: str, given: str | None, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """The values of a comma separated filter; all of them without one."""
    chosen = tuple(part.strip() for part in given.split(",")) if given else allowed
    for part in chosen:
        if part not in allowed:
            raise invalid_field(name, part, f"must be one of {', '.join(allowed)}")
    return tuple(dict.fromkeys(chosen))


@router.get("", summary="List jobs, newest first")
async def list_jobs(
    request: Request,
    page: Page,
    status: Annotated[str | None, Query(description="states, separated by commas")] = None,
    kind: Annotated[str | None, Query(description="kinds, separated by commas")] = None,
) -> dict[str, Any]:
    """A page of the jobs that are not ephemeral."""
    check_cursor(page, "job")
    found = await calls.arun(
        backend_of(request).redis,
        calls.list_jobs(
            principal_of(request).sees,
            kinds=_listed("kind", kind, tuple(KINDS)),
            states=_listed("status", status, STATES),
            after=page.after,
            descending=page.descending,
            limit=page.limit + 1,
        ),
    )
    data = [job_view(job) for job in found[: page.limit]]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(found) > page.limit,
    }


@router.get("/{job_id}", summary="Read a job")
async def get_job(request: Request, job_id: str) -> Response:
    """The job object; with ``Prefer: wait`` when it has ended or the time is over."""
    backend, principal = backend_of(request), principal_of(request)
    job = await backend.job(job_id, principal)
    seconds = wait_of(request)
    if seconds and not job.is_terminal:
        await wait_until_ended(backend, job_id, job.seq, seconds)
        job = await backend.job(job_id, principal)
    position = await backend.queue_position(job)
    headers = {"ETag": f'"{job.state}-{job.seq}-{position or 0}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return JSONResponse(job_view(job, position), headers=headers)


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
    return JSONResponse(job_view(job, await backend.queue_position(job)), status)


@router.post("/{job_id}/cancel", summary="Ask a job to end")
async def cancel_job(request: Request, job_id: str) -> Response:
    """200 when it has ended, now or before; 202 while its worker has not confirmed."""
    changed = await _ask(request, job_id, calls.cancel(job_id))
    return await _shown(request, job_id, 202 if changed.state == "cancelling" else 200)


@router.post("/{job_id}/pause", status_code=202, summary="Ask a job to checkpoint and wait")
async def pause_job(request: Request, job_id: str) -> Response:
    """409 when it has ended or is being cancelled."""
    changed = await _ask(request, job_id, calls.pause(job_id))
    if not changed.done:
        raise ConflictError(f"The job is {changed.state}: only queued and running jobs pause.", code="state")
    return await _shown(request, job_id, 202)


@router.post("/{job_id}/resume", status_code=202, summary="Queue a paused job again")
async def resume_job(request: Request, job_id: str) -> Response:
    """409 when it has ended or is being cancelled."""
    changed = await _ask(request, job_id, calls.resume(job_id))
    if not changed.done:
        raise ConflictError(f"The job is {changed.state}: only paused jobs resume.", code="state")
    return await _shown(request, job_id, 202)


@router.post("/{job_id}/retry", status_code=202, summary="Go on with a failed or cancelled job as a new one")
async def retry_job(
    request: Request, job_id: str, idempotency_key: Annotated[str | None, Header()] = None
) -> Response:
    """The new job has the same spec and ``retry_of``; it goes on from the last whole checkpoint, if any."""
    backend, principal = backend_of(request), principal_of(request)
    old = await backend.job(job_id, principal)
    if old.state not in ("failed", "cancelled"):
        raise ConflictError(f"The job is {old.state}: only failed and cancelled jobs retry.", code="state")
    find_kind(old.kind)
    options = Options(
        name=old.name,
        metadata=old.metadata,
        priority=old.priority,
        timeout_s=int(old.timeout_s),
        max_attempts=old.max_attempts,
    )
    prepared = Prepared(old.spec, old.estimate, old.lane)
    path = f"/v1/jobs/{job_id}/retry"
    new = Submission(old.kind, prepared, options, retry_of=old.id, idempotency_key=idempotency_key, path=path)
    return await created(request, await submit(backend, principal, new))


@router.delete("/{job_id}", status_code=204, summary="Delete a job that has ended")
async def delete_job(request: Request, job_id: str) -> Response:
    """409 while it has not ended."""
    changed = await _ask(request, job_id, calls.remove(job_id))
    if not changed.done:
        raise ConflictError(f"The job is {changed.state}: cancel it first.", code="state")
    return Response(status_code=204)


@router.get("/{job_id}/checkpoints", summary="List a job's checkpoints")
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


@router.get("/{job_id}/checkpoints/{step}/weights", summary="Download a checkpoint's weights")
async def get_weights(request: Request, job_id: str, step: int) -> Response:
    """The weights as safetensors, with ranges."""
    backend = backend_of(request)
    await backend.job(job_id, principal_of(request))
    manifest = await answer(backend.redis.hget(key("job", job_id, "checkpoints"), str(step)))
    if manifest is None:
        raise GoneError(f"The job has no checkpoint of step {step} (any more).", param="step")
    name = f"{job_id}-step-{step}.safetensors"
    return await blob_response(request, backend.blobs, json.loads(manifest)["weights"], name)
