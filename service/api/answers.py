"""What a route says of its answers in the OpenAPI document; ``openapi`` adds what is the same for all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from service import errors
from service.errors import ProblemError

EVENT_STREAM = "text/event-stream"
STATUSES = {
    200: "Done.",
    201: "Created.",
    202: "Accepted; it goes on.",
    204: "Done; there is nothing to say.",
    206: "The range that was asked for.",
    304: "Nothing has changed.",
    416: "The range begins behind the end.",
}
LOCATION = {"description": "where it can be read", "schema": {"type": "string"}}
TITLES = {
    kind.status: kind.title
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ProblemError) and kind is not ProblemError
}


def problem(status: int) -> dict[str, Any]:
    """A refusal in the document."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": f"{TITLES[status]}.",
        "content": {"application/problem+json": {"schema": schema}},
    }


def gives(
    shape: Any, *statuses: int, problems: Iterable[int] = (), stream: bool = False, located: bool = False
) -> dict[str, Any]:
    """Arguments of a route whose JSON answers have a shape; the first status, else 200, is the usual one.

    ``stream``: 200 may also be an event stream; ``located``: the answer says where what was made is.
    """
    responses: dict[int, dict[str, Any]] = {
        status: {"description": STATUSES[status]} | ({} if status == 304 else {"model": shape})
        for status in statuses or (200,)
    }
    if stream:
        responses[200]["content"] = {EVENT_STREAM: {"schema": {"type": "string"}}}
    if located:
        for response in responses.values():
            response["headers"] = {"Location": LOCATION}
    return _route(responses, problems)


def gives_content(media_type: str, problems: Iterable[int] = (404, 410)) -> dict[str, Any]:
    """Arguments of a route that answers with bytes, whole or a range of them."""
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    responses: dict[int, dict[str, Any]] = {
        status: {"description": STATUSES[status], "content": content} for status in (200, 206)
    }
    responses |= {status: {"description": STATUSES[status]} for status in (304, 416)}
    return _route(responses, problems)


def gives_stream(problems: Iterable[int] = ()) -> dict[str, Any]:
    """Arguments of a route that answers with an event stream."""
    content = {EVENT_STREAM: {"schema": {"type": "string"}}}
    return _route({200: {"description": STATUSES[200], "content": content}}, problems)


def gives_nothing(problems: Iterable[int] = ()) -> dict[str, Any]:
    """Arguments of a route whose answer is 204."""
    return _route({204: {"description": STATUSES[204]}}, problems)


def _route(responses: dict[int, dict[str, Any]], problems: Iterable[int]) -> dict[str, Any]:
    usual = next(iter(responses))
    refused = {status: problem(status) for status in problems}
    return {"status_code": usual, "response_model": None, "responses": responses | refused}
