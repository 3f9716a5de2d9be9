"""Compile jobs by their spec alone."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import Response

from service.api.answers import gives
from service.api.backend import backend_of, principal_of
from service.api.openapi import json_body
from service.api.requests import of_the_body, parse, read_body
from service.api.routes.jobs import created
from service.api.submit import Options, Submission, prepare, submit
from service.errors import InvalidFieldsError
from service.specs.compile import Compile
from service.wire import Job

router = APIRouter(prefix="/v1/compile", tags=["compile"])


@router.post(
    "",
    openapi_extra=json_body("Compile"),
    summary="Compile an expression, a graph or a table of benchmarks",
    **gives(Job, 202, 200, problems=(409, 429), located=True),
)
async def create_compile(
    request: Request, idempotency_key: Annotated[str | None, Header()] = None
) -> Response:
    """Queues the job; with ``Prefer: wait=N`` the answer has its result, if it ends in time."""
    backend, principal = backend_of(request), principal_of(request)
    spec = parse(Compile, await read_body(request))
    try:
        prepared = await prepare(backend, principal, "compile", spec.model_dump())
    except InvalidFieldsError as error:
        raise of_the_body(error, "spec.") from error
    path = request.url.path
    new = Submission("compile", prepared, Options(), idempotency_key=idempotency_key, path=path, body=spec)
    return await created(request, await submit(backend, principal, new))
