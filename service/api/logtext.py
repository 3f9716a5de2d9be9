"""A job's log as plain text, a line an event."""

from __future__ import annotations

from service.jobs.events import LoggedEvent
from service.lines import LINES, line


class LogText:
    """The text so far. It only grows, so a range of its bytes stays what it is."""

    def __init__(self) -> None:
        self.text = bytearray()
        self._seq = 0

    def take(self, event: LoggedEvent) -> None:
        """Adds the line of an event, and says what is missing before it."""
        if event.seq > self._seq + 1:
            self.text += f"(events {self._seq + 1} to {event.seq - 1} have expired)\n".encode()
        self._seq = event.seq
        if event.type in LINES:
            self.text += f"{line(event.to_dict())}\n".encode()
