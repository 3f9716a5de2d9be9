"""Fields of graphs as JSON: each is checked, and refused by its path.

A reader takes a value and the path that leads to it, and raises GraphFormatError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from typing import Any

from engine.core.dtype import BY_NAME, DType
from engine.core.node import Node
from engine.core.shapes import check_sizes
from engine.errors import EngineError

MOST_AXES = 8
_NAME_LENGTH = 64
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class GraphFormatError(EngineError, ValueError):
    """JSON that is no graph: ``path`` leads to what is wrong, as in ``nodes.3.attrs.axes``."""

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(f"{path or 'the graph'}: {rule}")
        self.path = path
        self.rule = rule


def read_object(
    value: Any, path: str, required: Set[str] | None = None, optional: Set[str] = frozenset()
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise GraphFormatError(path, f"{shown(value)} must be an object")
    if required is None:
        return value
    missing, unknown = sorted(required - value.keys()), sorted(map(str, value.keys() - required - optional))
    if missing:
        raise GraphFormatError(path, f"{', '.join(missing)} must be given")
    if unknown:
        allowed = ", ".join(sorted(required | optional)) or "none"
        raise GraphFormatError(path, f"{shown(unknown[0])} is not known here; known: {allowed}")
    return value


def read_list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise GraphFormatError(path, f"{shown(value)} must be a list")
    return value


def read_name(value: Any, path: str, taken: Mapping[str, Node]) -> str:
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= _NAME_LENGTH
        or not value.isidentifier()
        or not value.isascii()
    ):
        raise GraphFormatError(
            path, f"{shown(value)} must be a name of at most {_NAME_LENGTH} ASCII letters, digits and _"
        )
    if value in taken:
        raise GraphFormatError(path, f"the name {value} is given twice")
    return value


def read_known(value: Any, path: str, found: Mapping[str, Node]) -> str:
    if not isinstance(value, str) or value not in found:
        raise GraphFormatError(path, f"{shown(value)} must be an input or an earlier node")
    return value


def _integer(value: Any, path: str) -> int:
    if type(value) is not int or not -(2**62) <= value <= 2**62:
        raise GraphFormatError(path, f"{shown(value)} must be a whole number")
    return value


def _integers(value: Any, path: str) -> tuple[int, ...]:
    items = read_list(value, path)
    if len(items) > MOST_AXES:
        raise GraphFormatError(path, f"{len(items)} entries; there are at most {MOST_AXES} axes")
    return tuple([_integer(item, f"{path}.{k}") for k, item in enumerate(items)])


def read_sizes(value: Any, path: str) -> tuple[int, ...]:
    sizes = _integers(value, path)
    try:
        check_sizes(sizes)
    except ValueError as error:
        raise GraphFormatError(path, str(error)) from error
    return sizes


def read_dtype(value: Any, path: str) -> DType:
    if not isinstance(value, str) or value not in BY_NAME:
        raise GraphFormatError(path, f"{shown(value)} must be one of {', '.join(BY_NAME)}")
    return BY_NAME[value]


def _word(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise GraphFormatError(path, f"{shown(value)} must be a word")
    return value


def _flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise GraphFormatError(path, f"{shown(value)} must be true or false")
    return value


def _number(value: Any, path: str) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if not isinstance(value, int | float) or abs(value) > 2**1000:
        raise GraphFormatError(path, f"{shown(value)} must be a number, or one of {', '.join(_NOT_FINITE)}")
    return value


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


ATTRIBUTES: dict[str, Callable[[Any, str], Any]] = {
    "shape": read_sizes,
    "axis": _integer,
    "axes": _integers,
    "perm": _integers,
    "starts": _integers,
    "sizes": _integers,
    "steps": _integers,
    "low": _integers,
    "high": _integers,
    "dtype": read_dtype,
    "kind": _word,
    "mode": _word,
    "reverse": _flag,
    "value": _number,
    "index": _integer,
    "limit": _integer,
    "save": _word,
}
