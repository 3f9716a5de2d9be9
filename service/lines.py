"""Events as lines of text for readers, the same over HTTP and on the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

LINES = {
    "state": "state {state} {reason} {code} {message} {worker}",
    "stage": "stage {name} {state} {seconds}",
    "log": "{level} {message}",
    "checkpoint": "checkpoint at step {step}",
    "sample": "sample at step {step}: {text}",
}


def clean(text: str, *, lines: bool = False) -> str:
    """The text without control and direction characters, which could forge or hide output.

    ``lines`` keeps line ends; else they become spaces.
    """

    def safe(character: str) -> str:
        if character == "\n":
            return "\n" if lines else " "
        if character == "\t":
            return " "
        return "" if unicodedata.category(character) in ("Cc", "Cf", "Cs") else character

    return "".join(map(safe, text))


class _Missing(dict[str, str]):
    """Members that an event leaves out are empty."""

    def __missing__(self, key: str) -> str:
        return ""


def line(event: Mapping[str, Any]) -> str | None:
    """An event, as the API gives it, in one line; None for one that is no text."""
    form = LINES.get(event["type"])
    if form is None:
        return None
    words = form.format_map(_Missing({key: clean(str(value)) for key, value in event["data"].items()}))
    return f"{event['time']} {' '.join(words.split())}"
