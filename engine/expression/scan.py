"""The first look at a text: every character belongs to a token of the language, and limits hold.

What passes is short, of plain characters, and bracketed in balance, so Python's parser may see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engine.expression.language import ExpressionError


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a text may have: characters, tokens, and brackets inside each other."""

    characters: int = 10_000
    tokens: int = 2_000
    depth: int = 50


DIGITS = 40  # of a number: more than any dtype can tell apart
_TOKEN = re.compile(
    r"(?P<space>[ \t\n]+)"
    r"|(?P<number>(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<operator>\*\*|//|<<|>>|<=|>=|==|!=|[-+*/%@()<>&|^~,=])"
)
_FORBIDDEN = {
    **dict.fromkeys("'\"`", "there is no text, only numbers"),
    **dict.fromkeys("[]", "there are no lists and no indices"),
    **dict.fromkeys("{}", "there are no braces"),
    **dict.fromkeys(":;", "there are no statements and no lambdas, only one expression"),
    ".": "there are no attributes; write f(x) for x.f()",
    "#": "there are no comments",
    "\\": "there are no backslashes",
    "\0": "there are no zero characters",
    "!": "! is written ~ for bools, != for a comparison",
}


def scan(text: str, limits: Limits) -> None:
    """Raises ExpressionError for what is no token, out of balance or beyond the limits."""
    if len(text) > limits.characters:
        raise ExpressionError(
            limits.characters, f"{len(text)} characters are too many; at most {limits.characters}"
        )
    tokens = list(_tokens(text))
    if not tokens:
        raise ExpressionError(0, "the expression is empty")
    if len(tokens) > limits.tokens:
        position, _ = tokens[limits.tokens]
        raise ExpressionError(position, f"more than {limits.tokens} names, numbers and operators")
    _check_brackets(tokens, limits.depth)


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """Each token and its position; spaces are left out."""
    position, before = 0, ""
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ExpressionError(position, _why_not(text[position]))
        kind, token = found.lastgroup or "", found.group()
        if before == "number" and kind in ("name", "number"):
            raise ExpressionError(position, f"{token[:20]!r} follows a number; an operator must be between")
        if kind == "number" and len(token) > DIGITS:
            raise ExpressionError(position, f"a number of {len(token)} characters; at most {DIGITS}")
        if kind != "space":
            yield position, token
        position, before = found.end(), kind


def _check_brackets(tokens: Iterable[tuple[int, str]], depth: int) -> None:
    opened: list[int] = []
    for position, token in tokens:
        if token == "(":
            opened.append(position)
            if len(opened) > depth:
                raise ExpressionError(position, f"more than {depth} brackets inside each other")
        elif token == ")":
            if not opened:
                raise ExpressionError(position, "this bracket closes none")
            opened.pop()
    if opened:
        raise ExpressionError(opened[-1], "this bracket is never closed")


def _why_not(character: str) -> str:
    if character in _FORBIDDEN:
        return _FORBIDDEN[character]
    shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    return f"{shown} is no character of the language, which is ASCII"
