"""Ends background tasks for certain: a library may swallow a cancellation, as redis-py does connecting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

log = logging.getLogger(__name__)

AGAIN_S = 0.5
TRIES = 10


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels tasks until they are done. One that goes on for all that is left behind, and named."""
    pending = set(tasks)
    for _ in range(TRIES):
        if not pending:
            return
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=AGAIN_S)
    for task in pending:
        log.error("task %s does not end", task.get_name())
