"""The reader of changes hands out what its watchers read from the log meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from service.api.changes import START, ChangeFeed, Place, _Watcher
from service.embedded import EmbeddedServer
from service.ids import new_id
from service.jobs import calls
from service.jobs.connection import aconnect
from service.jobs.lanes import BATCH


def test_a_watcher_gets_once_what_comes_while_it_reads(embedded_server: EmbeddedServer) -> None:
    async def follow() -> tuple[list[Place], list[Place]]:
        async with aconnect(embedded_server.url) as redis:
            for _ in range(3):
                await calls.arun(redis, calls.accept(calls.NewJob(new_id("job"), "train", BATCH, {})))
            feed, watcher = ChangeFeed(redis, redis), _Watcher()
            changes = await feed._page(START)
            watcher.push(changes)
            got: list[Place] = []
            async with aclosing(feed._follow(watcher, START)) as steps:
                async for change in steps:
                    assert change is not None
                    got.append(change.place)
                    if len(got) == len(changes):
                        asyncio.get_running_loop().call_later(0, close, feed, watcher)
            return got, [change.place for change in changes]

    def close(feed: ChangeFeed, watcher: _Watcher) -> None:
        """The end of the stream, as soon as nothing waits any more."""
        if watcher.waiting:
            asyncio.get_running_loop().call_later(0.01, close, feed, watcher)
        else:
            feed.close()
            watcher.news.set()

    got, changes = asyncio.run(follow())
    assert got == changes
