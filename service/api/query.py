"""Unknown and repeated parameters of the query are refused: a misspelt filter must not select everything."""

from __future__ import annotations

import re

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from service.errors import invalid_field

_MEMBER = re.compile(r"([^[]*)\[.{1,64}\]", re.DOTALL)
"""A member of an object in the query, as metadata[team]."""


async def check_query(request: Request) -> None:
    """InvalidFieldsError for a parameter that the operation doesn't have, or has been given twice."""
    if not request.scope["query_string"]:
        return
    route: APIRoute = request.scope["route"]
    names = set(_names(route.dependant))
    objects = {each["name"] for each in (route.openapi_extra or {}).get("parameters", ())}
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        if name in seen:
            raise invalid_field(name, value, "must be given once")
        seen.add(name)
        member = _MEMBER.fullmatch(name)
        if (member is None or member[1] not in objects) and name not in names:
            known = sorted(names | {f"{each}[…]" for each in objects})
            rule = f"is none of {', '.join(known)}" if known else "there are no parameters here"
            raise invalid_field(name, value, rule)


def _names(dependant: Dependant) -> list[str]:
    own = [parameter.alias for parameter in dependant.query_params]
    return own + [name for inner in dependant.dependencies for name in _names(inner)]
