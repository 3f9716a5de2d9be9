"""What the client raises on purpose.

ClientError
├── UnreachableError           no answer within the patience
└── RefusedError               the server answered with a problem document
    ├── UnauthorisedError      401, 403
    ├── NotFoundError          404, 410
    └── ServerFaultError       5xx
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from service.wire import Json


class ClientError(Exception):
    """Base of everything the client raises on purpose."""


class UnreachableError(ClientError):
    """No server answered; the message names the address and the last error."""


class RefusedError(ClientError):
    """The server answered with an error.

    ``status`` is the HTTP status, ``code`` the problem's code, ``param`` the field it is about and ``errors``
    has one entry a field when there are several.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.code: str = problem.get("code") or f"http-{status}"
        self.param: str | None = problem.get("param")
        self.errors: list[Json] = list(problem.get("errors") or ())
        self.request_id: str | None = problem.get("request_id")
        super().__init__(problem.get("detail") or problem.get("title") or f"the server answered {status}")


class UnauthorisedError(RefusedError):
    """The API key is missing, wrong, or not allowed to do this."""


class NotFoundError(RefusedError):
    """There is no such job, model or file, or it has expired."""


class ServerFaultError(RefusedError):
    """The server failed; the request may be tried again later."""


CLASSES: dict[int, type[RefusedError]] = {
    401: UnauthorisedError,
    403: UnauthorisedError,
    404: NotFoundError,
    410: NotFoundError,
}
STREAM_STATUSES = {  # by an error's type
    "invalid_request_error": 400,
    "authentication_error": 401,
    "not_found_error": 404,
}


def refusal(answer: httpx.Response) -> RefusedError:
    """The exception for an error answer, from its problem document if it has one."""
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    return _class(answer.status_code)(answer.status_code, problem)


def problem_refusal(problem: Json) -> RefusedError:
    """The exception for the problem that ends a stream of events."""
    return _class(problem["status"])(problem["status"], problem)


def stream_refusal(error: Json) -> RefusedError:
    """The exception for an error inside a stream that had begun well."""
    status = STREAM_STATUSES.get(error.get("type") or "", 500)
    return _class(status)(status, {"detail": error["message"], **error})


def _class(status: int) -> type[RefusedError]:
    return CLASSES.get(status, ServerFaultError if status >= 500 else RefusedError)
