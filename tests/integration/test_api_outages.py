"""Redis away: requests get their 503 in time, streams wait, and everything goes on when it is back."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from api_rig import TRAIN, Api, data_of

from service.api import hub
from service.client import Client
from service.ids import new_id
from service.jobs import calls
from service.jobs.lanes import QUICK


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


def test_a_server_that_takes_no_writes_is_a_503(api: Api) -> None:
    """As when its disk is full."""
    api.redis.config_set("min-replicas-to-write", 1)
    try:
        answer = api.http.post("/v1/jobs", json=TRAIN)
        assert (answer.status_code, answer.json()["code"]) == (503, "no-redis")
        assert answer.headers["x-content-type-options"] == "nosniff"
    finally:
        api.redis.config_set("min-replicas-to-write", 0)


def test_a_full_disk_is_a_503(api: Api) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # the API runs in a thread of this process
    try:
        upload = api.http.post("/v1/files", files={"file": ("a.txt", b"text " * 1000)})
        ready = api.http.get("/readyz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    for answer in (upload, ready):
        assert (answer.status_code, answer.json()["code"]) == (503, "no-space")
    assert list((api.data / "blobs" / "partial").iterdir()) == []


@pytest.mark.parametrize("streamed", [False, True])
def test_a_completion_ends_when_redis_dies(api: Api, monkeypatch: pytest.MonkeyPatch, streamed: bool) -> None:
    """It is noticed when nothing came for a while, and answered."""
    monkeypatch.setattr(hub, "PING_S", 1.0)
    api.restart()  # so that the hub pings at the shorter pace
    api.submit()
    trainer = api.worker()
    trainer.claim()
    config = {"name": "bigram", "vocab_size": 65, "seq_len": 8}
    record = {"id": new_id("model"), "alias": "bard", "job": trainer.job, "step": 10, "created": 1}
    record |= {"config": config, "owner": "local", "weights": api.blobs.put(b"weights")}
    trainer.finish(model=calls.Model(record["id"], record, "bard"))
    worker = api.worker(QUICK).live()
    with ThreadPoolExecutor() as pool:
        body = {"model": "bard", "prompt": "to", "stream": streamed}
        asked = pool.submit(api.http.post, "/v1/completions", json=body)
        while api.queued() == 0:
            time.sleep(0.01)
        worker.claim()
        worker.say(("token", {"index": 0, "tokens": [{"text": "x", "id": 1, "logprob": -1.0}]}))
        time.sleep(0.5)
        os.kill(api.redis_pid, signal.SIGKILL)
        answer = asked.result(30)
    if streamed:
        assert '"code":"no-redis"' in answer.text
        assert answer.text.endswith("data: [DONE]\n\n")
    else:
        assert (answer.status_code, answer.json()["code"]) == (503, "no-redis")
