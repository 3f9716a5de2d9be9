"""What a lane's process knows about itself, for the code that a ticket starts."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from dataclasses import dataclass, field

from service.blobs import BlobStore
from service.settings import Settings


@dataclass(frozen=True)
class WorkerContext:
    """``stop`` is set when the process shall give its job back and end."""

    settings: Settings
    lane: str
    worker: str
    store: BlobStore
    stop: threading.Event = field(default_factory=threading.Event)


_current: ContextVar[WorkerContext] = ContextVar("worker_context")


def set_context(context: WorkerContext) -> None:
    """Makes ``context`` the one of this process's main thread, and of the processes it forks."""
    _current.set(context)


def current_context() -> WorkerContext:
    """The context of the lane in whose process this runs. LookupError outside of a worker."""
    return _current.get()
