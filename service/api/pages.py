"""Pages of records that are kept as JSON under ids in an index."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Depends, Query
from redis.asyncio import Redis

from service.api.backend import answer
from service.errors import invalid_field
from service.ids import is_id
from service.jobs.records import Json, key


@dataclass(frozen=True)
class Cursor:
    """Which page: the one after an id, in which order, how long."""

    after: str
    descending: bool
    limit: int


def cursor(
    after: Annotated[str, Query(max_length=64, description="the last id of the page before")] = "",
    order: Literal["asc", "desc"] = "desc",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Cursor:
    """The parameters of every list."""
    return Cursor(after, order == "desc", limit)


def check_cursor(page: Cursor, noun: str) -> None:
    """InvalidFieldsError for a cursor that is no id; what it named may be gone, its place is not."""
    if page.after and not is_id(page.after, noun):
        raise invalid_field("after", page.after, f"must be the id of a {noun}, as a page's last_id")


Page = Annotated[Cursor, Depends(cursor)]


async def page_of(
    redis: Redis,
    noun: str,
    scope: str,
    page: Cursor,
    view: Callable[[Json], dict[str, Any]],
    *,
    fits: Callable[[Json], bool] = lambda record: True,
) -> dict[str, Any]:
    """A page of the records ``<noun>:<id>`` that fit; their ids are in the sorted set ``<noun>s:<scope>``."""
    check_cursor(page, noun)
    found: list[Json] = []
    after = page.after
    while len(found) <= page.limit:
        names = await _names(redis, key(f"{noun}s", scope), after, page)
        contents = await answer(redis.mget([key(noun, name) for name in names])) if names else []
        found += filter(fits, (json.loads(content) for content in contents if content))
        if len(names) <= page.limit:
            break
        after = names[-1]
    shown = found[: page.limit]
    return {
        "object": "list",
        "data": [view(record) for record in shown],
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(found) > page.limit,
    }


async def _names(redis: Redis, index: str, after: str, page: Cursor) -> list[str]:
    """The ids that follow one in an index: one more than a page has, to tell whether that is all."""
    start = f"({after}" if after else ("+" if page.descending else "-")
    stop = "-" if page.descending else "+"
    ids = await answer(
        redis.zrange(index, start, stop, desc=page.descending, bylex=True, offset=0, num=page.limit + 1)
    )
    return [name.decode() for name in ids]
