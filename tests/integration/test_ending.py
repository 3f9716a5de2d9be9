"""Shutting down while Redis is away in every way: what a single cancellation would miss ends all the same."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from api_rig import Api

from service.api import ending


async def deaf(times: int) -> None:
    """Swallows cancellations, as a client does that is connecting."""
    for _ in range(times):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_task_that_swallows_cancellations_ends(times: int) -> None:
    async def check() -> None:
        task = asyncio.create_task(deaf(times))
        await asyncio.sleep(0)
        await ending.end([task])
        assert task.done()

    asyncio.run(check())


def test_a_task_that_never_ends_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "AGAIN_S", 0.01)

    async def check() -> None:
        task = asyncio.create_task(deaf(ending.TRIES + 1))
        await asyncio.sleep(0)
        await ending.end([task])
        assert not task.done()
        task.cancel()
        task.cancel()

    asyncio.run(check())


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_api_stops_while_redis_is_dead_or_silent(tmp_path: Path, how: signal.Signals) -> None:
    with Api(tmp_path) as api:
        frames = api.frames(api.submit()["id"])
        next(frames)
        os.kill(api.redis_pid, how)
        try:
            assert api.http.get("/readyz").status_code == 503
            api.running.stop()
        finally:
            if how == signal.SIGSTOP:
                os.kill(api.redis_pid, signal.SIGCONT)
