"""A response that streams server-sent events from a viewer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from redis.exceptions import RedisError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api.ending import end
from service.api.hub import Batch, End, Ping, Reset, Viewer

log = logging.getLogger(__name__)

RETRY = b"retry: 2000\n\n"
PING = b": ping\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(Response):
    """Sends what an asynchronous iterator of bytes yields, until it ends or the client goes."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes]) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ends the iterator as soon as the client has gone."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        pump = asyncio.create_task(self._pump(send))
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end([gone, pump])
        if pump.done():
            await _outcome(pump)

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._frames) as frames:
            async for part in frames:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _outcome(pump: asyncio.Task[None]) -> None:
    try:
        await pump
    except (asyncio.CancelledError, OSError):
        if (current := asyncio.current_task()) is not None and current.cancelling():
            raise


def frame(event: str, data: Any) -> bytes:
    """A frame without an id: not part of the log."""
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


async def event_frames(
    viewer: Viewer, snapshot: Callable[[], Awaitable[dict[str, Any] | None]]
) -> AsyncGenerator[bytes]:
    """The frames of one job's stream; ``snapshot`` gives the job as a ``reset`` shows it."""
    yield RETRY
    try:
        async with viewer, aclosing(viewer.steps()) as steps:
            async for step in steps:
                match step:
                    case Batch():
                        yield step.frames
                    case Ping():
                        yield PING
                    case Reset():
                        yield frame("reset", {"last_seq": step.last_seq, "job": await snapshot()})
                    case End():
                        yield frame("end", {"state": step.state, "last_seq": step.last_seq})
    except RedisError as error:
        log.warning("a stream of %s ends early, its viewer will come back: %s", viewer.job, error)
