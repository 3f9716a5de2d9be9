"""What the workers can do: one module a kind of job.

A handler is a function ``run(attempt, store) -> Outcome``. Its module is imported where the job runs and
nowhere else, so that the parent of a forked job never loads the engine's native part.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from service.blobs import BlobStore
from service.jobs.calls import Model
from workers.attempt import Attempt


@dataclass(frozen=True)
class Outcome:
    """What a job leaves behind: its result as JSON, and the model it publishes."""

    result: Any = None
    model: Model | None = None


Handler = Callable[[Attempt, BlobStore], Outcome]

MODULES = {
    "train": "workers.handlers.train",
    "sample": "workers.handlers.sample",
    "price": "workers.handlers.price",
    "compile": "workers.handlers.compile",
}


def find_handler(kind: str) -> Handler:
    """The function that does jobs of a kind. KeyError for a kind this worker doesn't know."""
    handler: Handler = importlib.import_module(MODULES[kind]).run
    return handler
