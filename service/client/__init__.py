"""The job API from Python: submit, watch, cancel, sample.

Every call that can be repeated without harm is repeated when the connection fails; ``submit`` carries an
idempotency key for that. ``events`` yields each event of a job exactly once, however often the stream breaks.
"""

from __future__ import annotations

from service.client.errors import (
    ClientError,
    NotFoundError,
    RefusedError,
    ServerFaultError,
    UnauthorisedError,
    UnreachableError,
)
from service.client.events import Events
from service.client.frames import Frame, parse_frames
from service.client.library import Files, Models, Service

__all__ = [
    "Client",
    "ClientError",
    "Frame",
    "NotFoundError",
    "RefusedError",
    "ServerFaultError",
    "UnauthorisedError",
    "UnreachableError",
    "parse_frames",
]


class Client(Events, Files, Models, Service):
    """A connection to one server. Use as a context manager, or call ``close``."""
