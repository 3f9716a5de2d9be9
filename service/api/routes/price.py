"""Prices at once: a contract in, its price out, in the same request where a worker is quick enough."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from pydantic import RootModel
from redis.exceptions import RedisError
from starlette.responses import Response

from service.api.answers import gives
from service.api.backend import Backend, backend_of, principal_of
from service.api.encoding import JsonResponse
from service.api.openapi import json_body
from service.api.requests import of_the_body, parse, read_body
from service.api.routes.jobs import created, wait_of
from service.api.submit import Options, Submission, prepare, submit
from service.api.views import job_view
from service.api.waiting import until_ended, until_started
from service.errors import InternalError, InvalidFieldsError, InvalidRequestError, ProblemError
from service.jobs.calls import arun, cancel
from service.jobs.records import JobRecord

router = APIRouter(prefix="/v1/price", tags=["price"])

TIMEOUT_S = 600


class PriceRequest(RootModel[dict[str, Any]]):
    """A contract and its market as docs/pricing.md tells, or ``{"contracts": [...]}``."""


@router.post(
    "",
    openapi_extra=json_body("PriceRequest"),
    summary="Price a contract, or many",
    **gives(dict[str, Any], 200, 202, problems=(429,)),
)
async def create_price(request: Request) -> Response:
    """With ``Prefer: wait=N`` answers the price, if it is there in time; else the job that computes it."""
    backend, principal = backend_of(request), principal_of(request)
    contract = parse(PriceRequest, await read_body(request)).root
    many = contract.keys() == {"contracts"}
    spec = {**(contract if many else {"contract": contract}), "charts": False}
    try:
        prepared = await prepare(backend, principal, "price", spec)
    except InvalidFieldsError as error:
        raise of_the_body(error, "spec.", "contract.") from error
    seconds = wait_of(request)
    options = Options(timeout_s=TIMEOUT_S)
    if not seconds:
        submitted = await submit(backend, principal, Submission("price", prepared, options))
        return await created(request, submitted)
    new = Submission("price", prepared, options, ephemeral=True)
    job = (await submit(backend, principal, new)).job
    job = await _waited(backend, job, seconds, request)
    headers = {"Preference-Applied": f"wait={seconds}"}
    if not job.is_terminal:
        headers["Location"] = f"/v1/jobs/{job.id}"
        return JsonResponse(job_view(job, await backend.place(job)), 202, headers)
    return JsonResponse(_answer(job, many), headers=headers)


async def _waited(backend: Backend, job: JobRecord, seconds: int, request: Request) -> JobRecord:
    """The job when it has ended or the time is over; cancelled when the client leaves or no worker comes."""
    try:
        await until_started(backend, job)
        await until_ended(backend, job.id, job.seq, seconds)
        return await backend.job(job.id, principal_of(request))
    except BaseException:
        await asyncio.shield(_abandoned(backend, job))
        raise


async def _abandoned(backend: Backend, job: JobRecord) -> None:
    try:
        await arun(backend.redis, cancel(job.id))
    except RedisError:
        return  # the job ends by itself


def _answer(job: JobRecord, many: bool) -> dict[str, Any]:
    if job.state != "succeeded":
        raise _failure(job)
    answers: list[dict[str, Any]] = (job.result or {})["answers"]
    if many:
        return {"object": "list", "data": answers, "job": job.id}
    return {"object": "price", **answers[0], "job": job.id}


def _failure(job: JobRecord) -> ProblemError:
    error = job.error or {"code": "cancelled", "message": "The price was cancelled."}
    if error["code"] == "invalid-contract":
        return InvalidRequestError(error["message"], code=error["code"])
    return InternalError(error["message"], code=error["code"])
