"""Members that a JSON body names twice: readers differ in which they take, so neither is taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


class _RepeatedError(Exception):
    """An object names a member twice."""


class _Members(tuple[tuple[str, Any], ...]):
    """The members of an object as they stand."""


def repeated_members(body: bytes) -> Iterator[tuple[str, ...]]:
    """The paths of the members that a body names more than once. The body is JSON that was read before."""
    try:
        _read(body, _check)
    except _RepeatedError:
        yield from _find(_read(body, _Members))


def _read(body: bytes, hook: Any) -> Any:
    return json.loads(body, object_pairs_hook=hook, parse_int=str, parse_float=str)


def _check(members: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in members}) < len(members):
        raise _RepeatedError


def _find(document: Any) -> Iterator[tuple[str, ...]]:
    waiting: list[tuple[tuple[str, ...], Any]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, _Members):
            seen: set[str] = set()
            for name, member in value:
                if name in seen:
                    yield (*path, name)
                seen.add(name)
                waiting.append(((*path, name), member))
        elif isinstance(value, list):
            waiting += [((*path, str(i)), entry) for i, entry in enumerate(value)]
