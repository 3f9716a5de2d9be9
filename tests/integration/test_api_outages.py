"""Redis away: requests get their 503 in time, streams wait, and everything goes on when it is back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from api_rig import Api, data_of

from service.client import Client


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path) as running:
        yield running


@contextmanager
def silent_redis(api: Api) -> Iterator[None]:
    """The server takes connections and answers nothing."""
    os.kill(api.redis_pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(api.redis_pid, signal.SIGCONT)


def test_requests_are_refused_with_503_and_served_again_later(api: Api) -> None:
    job = api.submit()["id"]
    with silent_redis(api):
        paths = ("/v1/jobs", f"/v1/jobs/{job}", f"/v1/jobs/{job}/events", "/v1/files", "/readyz")
        with ThreadPoolExecutor() as pool:
            for answer in pool.map(api.http.get, paths):
                assert (answer.status_code, answer.json()["code"]) == (503, "no-redis")
                assert answer.headers["retry-after"]
        assert api.http.get("/healthz").status_code == 200
    assert api.http.get(f"/v1/jobs/{job}").json()["id"] == job
    assert api.http.get("/readyz").status_code == 200


def test_a_stream_survives_silence_without_loss(api: Api) -> None:
    job = api.submit()["id"]
    worker = api.worker()
    worker.claim()
    seen: list[int] = []
    started = threading.Event()

    def view() -> None:
        with Client(api.url) as client:
            for event in client.events(job):
                seen.append(event["seq"])
                started.set()

    viewer = threading.Thread(target=view)
    viewer.start()
    assert started.wait(30)
    with silent_redis(api):
        time.sleep(4)  # longer than the reader waits for an answer
    for i in range(5):
        worker.loss((i, 1.0))
    worker.finish()
    viewer.join(30)
    assert seen == list(range(1, 9))


def test_viewers_are_reset_when_the_server_has_lost_its_last_events(api: Api) -> None:
    job = api.submit()["id"]
    worker = api.worker()
    worker.claim()
    earlier = {name: api.redis.dump(name) for name in api.redis.keys("*")}
    worker.loss((1, 1.0))
    worker.loss((2, 1.0))
    frames = api.frames(job)
    assert [next(frames).id for _ in range(4)] == ["1", "2", "3", "4"]
    api.redis.delete(*api.redis.keys("*"))
    for name, value in earlier.items():
        api.redis.restore(name, 0, value)  # type: ignore[arg-type]
    with silent_redis(api):
        time.sleep(4)  # the reader sees an outage, and compares afterwards
    reset = next(frames)
    assert (reset.event, data_of(reset)["last_seq"]) == ("reset", 2)
    worker.said = 0
    worker.loss((1, 1.0))
    worker.finish()
    assert [(frame.event, frame.id) for frame in frames] == [("metric", "3"), ("state", "4"), ("end", None)]
