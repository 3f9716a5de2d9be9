"""Server-sent events, read from the lines of a response."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import httpx

from service.wire import Json


@dataclass(frozen=True)
class Frame:
    """One server-sent event."""

    event: str
    data: str
    id: str | None

    def json(self) -> Json:
        """Its data, parsed; empty where it has none."""
        parsed: Json = json.loads(self.data) if self.data else {}
        return parsed


def parse_frames(lines: Iterable[str]) -> Iterator[Frame]:
    """Server-sent events from the lines of a stream; comments are skipped, an unfinished frame is dropped."""
    fields: dict[str, list[str]] = {}
    for line in lines:
        if not line:
            if "data" in fields or "event" in fields:
                event, ids = fields.get("event", ["message"])[-1], fields.get("id")
                yield Frame(event, "\n".join(fields.get("data", [])), ids[-1] if ids else None)
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))


def lines_until_comment(answer: httpx.Response) -> Iterator[str]:
    """The stream's lines up to the first sign of life that carries no event.

    A stream's silence has one fixed limit; opened again, the stream gets the time that is left.
    """
    for line in answer.iter_lines():
        if line.startswith(":"):
            return
        yield line
