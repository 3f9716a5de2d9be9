"""Everything the API refuses or fails at, as problems (RFC 9457) with a code of their own.

ProblemError
├── InvalidRequestError      400  the request can't be read
├── UnauthorisedError        401  no key, or a wrong one
├── ForbiddenError           403  an origin, or a key without the right
├── NotFoundError            404
├── MethodError              405
├── RequestTimeoutError      408  the request does not come whole
├── ConflictError            409  not in this state; trying again won't help
├── GoneError                410
├── TooLargeError            413
├── MediaTypeError           415
├── MisdirectedError         421  a Host this server doesn't serve
├── InvalidFieldsError       422  fields that break a rule
├── QuotaError               429
├── HeadTooLargeError        431  the headers are too long
├── InternalError            500
└── UnavailableError         503  Redis, the store or a worker is missing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SHOWN = 80  # characters of a value that a message repeats
PARAM_SHOWN, RULE_SHOWN, DETAIL_SHOWN = 200, 1000, 4000  # characters of what else may hold a client's text


def show(value: Any) -> str:
    """A value as a message shows it: in one line, cut where it is long."""
    return cut(repr(value), SHOWN)


def cut(text: str, most: int) -> str:
    """The text, or its beginning and how long it is."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


@dataclass(frozen=True)
class FieldError:
    """A field of the request that breaks a rule: its dotted path, its value as shown, and the rule."""

    param: str
    value: str
    rule: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "param", cut(self.param, PARAM_SHOWN))
        object.__setattr__(self, "rule", cut(self.rule, RULE_SHOWN))

    @property
    def message(self) -> str:
        """The sentence for a reader."""
        return f"{self.param} is {self.value}: {self.rule}"

    def to_dict(self) -> dict[str, str]:
        """The entry in the problem's ``errors``."""
        return {"param": self.param, "value": self.value, "rule": self.rule, "message": self.message}


class ProblemError(Exception):
    """Base, one class a status: ``code`` is for programs, ``detail`` for readers, ``param`` names a field."""

    status = 500
    title = "The request could not be answered"
    kind = "server_error"  # the type that OpenAI clients know
    code = "internal"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        param: str | None = None,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = cut(detail, DETAIL_SHOWN)
        self.code = code or self.code
        self.param = param if param is None else cut(param, PARAM_SHOWN)
        self.errors = tuple(errors)
        self.headers = dict(headers or {})


class InvalidRequestError(ProblemError):
    status, title, kind, code = 400, "The request can't be read", "invalid_request_error", "invalid-request"


class UnauthorisedError(ProblemError):
    status, title, kind, code = 401, "An API key is needed", "authentication_error", "unauthorised"


class ForbiddenError(ProblemError):
    status, title, kind, code = 403, "This is not allowed", "permission_error", "forbidden"


class NotFoundError(ProblemError):
    status, title, kind, code = 404, "There is no such thing", "not_found_error", "not-found"


class MethodError(ProblemError):
    status, title, kind, code = 405, "This path has no such method", "invalid_request_error", "method"


class RequestTimeoutError(ProblemError):
    status, title, kind, code = 408, "The request came too slowly", "invalid_request_error", "slow-request"


class ConflictError(ProblemError):
    status, title, kind, code = 409, "The state doesn't allow this", "conflict_error", "conflict"


class GoneError(ProblemError):
    status, title, kind, code = 410, "It has expired", "not_found_error", "gone"


class TooLargeError(ProblemError):
    status, title, kind, code = 413, "The body is too large", "invalid_request_error", "too-large"


class MediaTypeError(ProblemError):
    status, title, kind, code = 415, "This content is not taken", "invalid_request_error", "media-type"


class MisdirectedError(ProblemError):
    status, title, kind, code = 421, "This server has another name", "invalid_request_error", "host"


class InvalidFieldsError(ProblemError):
    """One or more fields break a rule."""

    status, title, kind, code = 422, "A field breaks a rule", "invalid_request_error", "invalid-field"

    def __init__(self, errors: Sequence[FieldError], *, code: str | None = None) -> None:
        detail = "; ".join(error.message for error in errors)
        super().__init__(detail, code=code, param=errors[0].param, errors=errors)


class QuotaError(ProblemError):
    status, title, kind, code = 429, "Too much at once", "rate_limit_error", "quota"


class HeadTooLargeError(ProblemError):
    status, title, kind, code = 431, "The headers are too long", "invalid_request_error", "head-too-large"


class InternalError(ProblemError):
    """Something here is broken; the request id leads to the log."""


class UnavailableError(ProblemError):
    status, title, kind, code = 503, "Not now", "server_error", "unavailable"


def invalid_field(param: str, value: Any, rule: str) -> InvalidFieldsError:
    """The problem of a single field."""
    return InvalidFieldsError([FieldError(param, show(value), rule)])


def field_problem(
    kind: type[ProblemError], param: str, shown: str, rule: str, *, code: str | None = None
) -> ProblemError:
    """A problem of any kind that is about one field; ``shown`` is how the message shows its value."""
    error = FieldError(param, shown, rule)
    return kind(error.message, code=code, param=param, errors=[error])
