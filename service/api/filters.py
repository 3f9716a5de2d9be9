"""What the job list can be asked for, read from the query."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import AwareDatetime

from service.errors import invalid_field
from service.jobs.listing import Wanted
from service.jobs.records import STATES
from service.specs import KINDS

METADATA = re.compile(r"metadata\[(.{1,64})\]", re.DOTALL)
MOST_METADATA = 16
METADATA_PARAMETER: dict[str, Any] = {
    "parameters": [
        {
            "name": "metadata",
            "in": "query",
            "style": "deepObject",
            "explode": True,
            "required": False,
            "description": "entries that the metadata must have, as in metadata[team]=blue",
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        }
    ]
}


def wanted(
    request: Request,
    *,
    state: Annotated[str | None, Query(description="states, separated by commas")] = None,
    kind: Annotated[str | None, Query(description="kinds, separated by commas")] = None,
    name: Annotated[str | None, Query(max_length=128, description="exactly this name")] = None,
    created_after: Annotated[AwareDatetime | None, Query(description="only jobs created later")] = None,
    created_before: Annotated[AwareDatetime | None, Query(description="only jobs created before")] = None,
) -> Wanted:
    """The jobs that fit every parameter given."""
    return Wanted(
        kinds=_listed("kind", kind, tuple(KINDS)),
        states=_listed("state", state, STATES),
        name=name,
        metadata=_metadata(request),
        created_after=_milliseconds(created_after),
        created_before=_milliseconds(created_before),
    )


Filters = Annotated[Wanted, Depends(wanted)]


def _listed(name: str, given: str | None, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """The values of a comma separated filter; all of them without one."""
    chosen = tuple(part.strip() for part in given.split(",")) if given else allowed
    for part in chosen:
        if part not in allowed:
            raise invalid_field(name, part, f"must be one of {', '.join(allowed)}")
    return tuple(dict.fromkeys(chosen))


def _metadata(request: Request) -> dict[str, str]:
    found = {
        form[1]: value
        for name, value in request.query_params.multi_items()
        if (form := METADATA.fullmatch(name)) is not None
    }
    if len(found) > MOST_METADATA:
        raise invalid_field("metadata", f"{len(found)} entries", f"must have at most {MOST_METADATA}")
    return found


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp() * 1000)
