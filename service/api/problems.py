"""Problem documents (RFC 9457) that OpenAI clients understand too, and what becomes one."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from service.api.locations import Part, field_path
from service.blobs import BlobError, BlobSpaceError
from service.errors import (
    FieldError,
    InternalError,
    InvalidFieldsError,
    InvalidRequestError,
    MethodError,
    NotFoundError,
    ProblemError,
    RequestTimeoutError,
    TooLargeError,
    UnavailableError,
    show,
)

log = logging.getLogger(__name__)

BY_STATUS: dict[int, type[ProblemError]] = {
    400: InvalidRequestError,
    404: NotFoundError,
    405: MethodError,
    413: TooLargeError,
}
MOST_ERRORS = 20
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
REFUSALS = re.compile(r".*\b(MISCONF|OOM|READONLY|NOREPLICAS)\b|.*not allowed when used memory")


def problem_document(problem: ProblemError, request_id: str | None) -> dict[str, Any]:
    """The body of an error answer."""
    return {
        "type": f"urn:gradmill:problem:{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "code": problem.code,
        "param": problem.param,
        "errors": [error.to_dict() for error in problem.errors],
        "request_id": request_id,
        "error": {
            "message": problem.detail,
            "type": problem.kind,
            "param": problem.param,
            "code": problem.code,
        },
    }


def problem_response(problem: ProblemError, request_id: str | None) -> Response:
    """The error answer of a problem."""
    headers = dict(problem.headers)
    if problem.status == 409:
        headers["x-should-retry"] = "false"  # else OpenAI clients send it twice more
    body = problem_document(problem, request_id)
    return JSONResponse(body, problem.status, headers, media_type="application/problem+json")


RULES = {
    "missing": "must be given",
    "extra_forbidden": "is not a field here",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "finite_number": "must be a finite number",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "literal_error": "must be {expected}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entries",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be an integer of fewer digits",
    "int_from_float": "must be an integer",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "none_required": "must be null",
    "string_unicode": "must be text in UTF-8",
    "timezone_aware": "must say its zone, as 2026-01-31T12:00:00Z does",
    "datetime_parsing": "must be a time such as 2026-01-31T12:00:00Z",
    "datetime_from_date_parsing": "must be a time such as 2026-01-31T12:00:00Z",
    "datetime_object_invalid": "must be a time such as 2026-01-31T12:00:00Z",
    "string_pattern_mismatch": "must match {pattern}",
    "union_tag_invalid": "must be one of {expected_tags}",
    "union_tag_not_found": "must be given",
    "value_error": "{error}",
}

OTHER_RULE = "has a form that is not taken here"


def _rule(error: ErrorDetails) -> str:
    """What a value must be."""
    return RULES.get(error["type"], OTHER_RULE).format(**error.get("ctx", {}))


def _find_error(error: ErrorDetails, body: Any, prefix: str) -> tuple[tuple[Part, ...], FieldError]:
    """The path of the field at fault, and what is wrong with it."""
    location, value, kind = error["loc"], error["input"], error["type"]
    if kind.startswith("union_tag"):  # the field at fault is the one that tells which model is meant
        location = (*location, error["ctx"]["discriminator"].strip("'"))
    if kind == "missing" or kind.startswith("union_tag"):
        name = location[-1]
        path = (*field_path(location[:-1], body, value), name)
        value = value.get(name) if isinstance(value, dict) else None
    else:
        path = field_path(location, body, value)
    shown = "missing" if kind in ("missing", "union_tag_not_found") else show(value)
    param = ".".join(map(str, (prefix, *path) if prefix else path)) or "body"
    return path, FieldError(param, shown, _rule(error))


def invalid_fields(error: ValidationError, body: Any, prefix: str = "") -> InvalidFieldsError:
    """The problem of a body that pydantic refused; ``prefix`` is where in the request it stood.

    Of a field that may have several forms the form is meant that goes deepest, or else one of all.
    """
    found: dict[tuple[Part, ...], FieldError] = {}
    for each in error.errors(include_url=False)[:MOST_ERRORS]:
        path, wrong = _find_error(each, body, prefix)
        if path in found:
            wrong = replace(wrong, rule=f"{found[path].rule} or {wrong.rule}")
        found[path] = wrong
    outer = {path[:length] for path in found for length in range(len(path))}
    return InvalidFieldsError([wrong for path, wrong in found.items() if path not in outer])


def _request_id(request: Request) -> str | None:
    value: str | None = request.scope.get("state", {}).get("request_id")
    return value


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return problem_response(error, _request_id(request))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail, headers = f"{request.method} {request.url.path}: {error.detail}", dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
        detail = f"{request.url.path} knows {headers['Allow']}, not {request.method}."
    problem = BY_STATUS.get(error.status_code, InternalError)(detail, headers=headers)
    return problem_response(problem, _request_id(request))


def _methods(request: Request) -> list[str]:
    """The methods that the path of a request knows, on whichever routes."""
    routes = request.app.routes
    known = [
        method
        for method in METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return [*known, "HEAD"] if "GET" in known else known


async def _parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    fields = [
        FieldError(".".join(map(str, each["loc"][1:])), show(each.get("input")), _rule(each))
        for each in error.errors()[:MOST_ERRORS]
    ]
    return problem_response(InvalidFieldsError(fields), _request_id(request))


async def _gone(request: Request, error: Exception) -> Response:
    """For the log and the metrics: the client has gone, or was told so by the protocol."""
    return problem_response(RequestTimeoutError("The body did not come whole."), _request_id(request))


async def _redis_away(request: Request, error: Exception) -> Response:
    log.warning("Redis does not answer: %s", error)
    return problem_response(redis_away(), _request_id(request))


def redis_away() -> UnavailableError:
    """The problem of every request that needs Redis while it is away."""
    return UnavailableError("Redis does not answer.", code="no-redis", headers={"Retry-After": "1"})


async def _redis_refuses(request: Request, error: Exception) -> Response:
    """A server that can't take writes now, because its disk or memory is full, is away as well."""
    if not REFUSALS.match(str(error)):
        raise error
    log.warning("Redis takes no writes: %s", error)
    problem = UnavailableError("Redis takes no writes now.", code="no-redis", headers={"Retry-After": "5"})
    return problem_response(problem, _request_id(request))


async def _store_away(request: Request, error: Exception) -> Response:
    log.warning("the blob store fails: %s", error)
    is_full = isinstance(error, BlobSpaceError)
    detail, code = ("The disk is full.", "no-space") if is_full else ("The blob store fails.", "no-store")
    problem = UnavailableError(detail, code=code, headers={"Retry-After": "5"})
    return problem_response(problem, _request_id(request))


def add_problem_handlers(app: FastAPI) -> None:
    """Makes every error answer a problem document."""
    app.add_exception_handler(ProblemError, _problem)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _parameters)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(RedisConnectionError, _redis_away)
    app.add_exception_handler(RedisTimeoutError, _redis_away)
    app.add_exception_handler(ResponseError, _redis_refuses)
    app.add_exception_handler(BlobError, _store_away)
