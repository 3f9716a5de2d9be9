"""Where in a request pydantic found a fault, as the fields that its sender knows.

A location also names branches of unions and parts of types that were tried. Which of its parts are fields and
entries, the request itself shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Part = int | str


def field_path(location: Sequence[Part], body: Any, value: Any) -> tuple[Part, ...]:
    """The parts of a location that lead through ``body`` to ``value``, or else as deep as they can."""
    ways: list[tuple[tuple[Part, ...], Any]] = [((), body)]
    for part in location:
        ways += [((*path, part), member) for path, here in ways for member in _member(here, part)]
    fitting = [path for path, here in ways if here == value]
    return max(fitting or [path for path, _ in ways], key=len)


def _member(here: Any, part: Part) -> list[Any]:
    """What a part names in an object or a list, if anything."""
    if isinstance(here, dict):
        return [here[part]] if part in here else []
    if isinstance(here, list) and isinstance(part, int):
        return here[part : part + 1]
    return []
