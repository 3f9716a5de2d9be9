"""Reading request bodies: JSON by pydantic alone, so that the first word on a bad body is ours."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from service.api.members import repeated_members
from service.api.problems import MOST_ERRORS, invalid_fields
from service.errors import (
    SHOWN,
    FieldError,
    InvalidFieldsError,
    InvalidRequestError,
    MediaTypeError,
    field_problem,
    show,
)

M = TypeVar("M", bound=BaseModel)


async def read_body(request: Request) -> bytes:
    """The bytes of a JSON body. MediaTypeError for another content type, or one that is packed."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise field_problem(MediaTypeError, "Content-Type", show(kind), "must be application/json")
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise field_problem(MediaTypeError, "Content-Encoding", show(coding), "must be absent or identity")
    return await request.body()


def parse(model: type[M], body: bytes) -> M:
    """The body as a model. InvalidRequestError if it isn't JSON, InvalidFieldsError if it breaks a rule."""
    try:
        read = model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            rule = f"must be JSON, but: {first['ctx']['error']}"
            shown = show(body[:SHOWN].decode("utf-8", "replace"))
            raise field_problem(InvalidRequestError, "body", shown, rule, code="invalid-json") from error
        raise invalid_fields(error, _loads(body)) from error
    repeated = islice(repeated_members(body), MOST_ERRORS)
    if errors := [FieldError(".".join(path), "given again", "must be given once") for path in repeated]:
        raise InvalidFieldsError(errors)
    return read


def of_the_body(error: InvalidFieldsError, *parts: str) -> InvalidFieldsError:
    """The same errors, about the fields of a body that is only a part of a job; ``parts`` lead to it."""
    fields = list(error.errors)
    for part in parts:
        fields = [replace(each, param=each.param.removeprefix(part)) for each in fields]
    return InvalidFieldsError(fields, code=error.code)


def _loads(body: bytes) -> Any:
    """The parsed body, only to find the fields that messages name."""
    try:
        return json.loads(body, parse_int=_whole)
    except (ValueError, RecursionError):
        return None


def _whole(digits: str) -> int | str:
    """The number, or its digits where they are more than Python reads."""
    return int(digits) if len(digits) < sys.int_info.default_max_str_digits else digits
