"""A response that streams server-sent events from a viewer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any

from redis.exceptions import RedisError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api.ending import end
from service.api.hub import Batch, End, Ping, Reset, Step, Viewer
from service.api.problems import problem_document
from service.errors import ProblemError
from service.jobs.events import EVENT_TYPES

log = logging.getLogger(__name__)

RETRY = b"retry: 2000\n\n"
PING = b": ping\n\n"
FAREWELL_S = 1.0  # for a client to take the reason of a stream's end
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


Refusal = Callable[[], Coroutine[Any, Any, ProblemError]]


class EventStream(Response):
    """Sends what an asynchronous iterator of bytes yields, until it ends, the client goes or loses its right.

    ``refusal`` returns when the key that opened the stream is no longer good, with what a new request would
    be answered; that is the last frame then, ``event: error``.
    """

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes], refusal: Refusal) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._frames = frames
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ends the iterator as soon as the client has gone or is refused."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        pump = asyncio.create_task(self._pump(send))
        gone = asyncio.create_task(_gone(receive))
        refused = asyncio.create_task(self._refusal())
        done: set[asyncio.Task[Any]] = set()
        try:
            done, _ = await asyncio.wait({pump, gone, refused}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end([gone, refused, pump])
        if pump.done():
            await _outcome(pump)
        if done == {refused}:
            await _say_farewell(send, problem_document(refused.result(), scope["state"]["request_id"]))

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._frames) as frames:
            async for part in frames:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _say_farewell(send: Send, problem: dict[str, Any]) -> None:
    with suppress(TimeoutError):  # a client that reads nothing is not waited for
        async with asyncio.timeout(FAREWELL_S):
            await send({"type": "http.response.body", "body": frame("error", problem), "more_body": False})


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


Snapshot = Callable[[str], Awaitable[dict[str, Any] | None]]


async def event_frames(viewer: Viewer, snapshot: Snapshot) -> AsyncGenerator[bytes]:
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
                        shown = {"last_seq": step.last_seq, "snapshot": await snapshot(viewer.job)}
                        yield frame("reset", shown)
                    case End():
                        yield frame("end", {"state": step.state, "last_seq": step.last_seq})
    except RedisError as error:
        log.warning("a stream of %s ends early, its viewer will come back: %s", viewer.job, error)


async def merged_frames(
    viewers: Sequence[Viewer], types: frozenset[str], snapshot: Snapshot
) -> AsyncGenerator[bytes]:
    """The frames of several jobs' stream, each with its job's id; ``types`` are the events wanted."""
    yield RETRY
    try:
        async with aclosing(merged(viewers)) as steps:
            async for job, step in steps:
                match step:
                    case Batch() if types >= EVENT_TYPES:
                        yield step.named_frames
                    case Batch():
                        yield b"".join(event.named_sse(job) for event in step.events if event.type in types)
                    case Ping():
                        yield PING
                    case Reset():
                        shown = {"job": job, "last_seq": step.last_seq, "snapshot": await snapshot(job)}
                        yield frame("reset", shown)
                    case End():
                        yield frame("end", {"job": job, "state": step.state, "last_seq": step.last_seq})
    except RedisError as error:
        log.warning("a stream of several jobs ends early, its viewer will come back: %s", error)


async def merged(viewers: Sequence[Viewer]) -> AsyncGenerator[tuple[str, Step]]:
    """The steps of several viewers as they come, each with its job, until all have ended."""
    async with AsyncExitStack() as stack:
        coming: dict[asyncio.Task[Step | None], tuple[str, AsyncGenerator[Step]]] = {}

        def expect(job: str, steps: AsyncGenerator[Step]) -> None:
            coming[asyncio.create_task(_next(steps))] = (job, steps)

        for viewer in viewers:
            await stack.enter_async_context(viewer)
            expect(viewer.job, await stack.enter_async_context(aclosing(viewer.steps())))
        stack.push_async_callback(end, coming)  # first of all, for a generator that runs can't be closed
        while coming:
            done, _ = await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                job, steps = coming.pop(task)
                if (step := task.result()) is not None:
                    expect(job, steps)
                    yield job, step


async def _next(steps: AsyncGenerator[Step]) -> Step | None:
    return await anext(steps, None)
