"""Event streams: every event once and in order, through reconnects, restarts, trimming and lost histories."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_rig import Api, FakeWorker, data_of, ids_of

from service.client import Client
from service.jobs import calls
from service.jobs.events import store_segment
from service.jobs.records import key


@pytest.fixture(autouse=True)
def empty(api: Api) -> None:
    api.redis.flushall()


@pytest.fixture
def worker(api: Api) -> FakeWorker:
    """A worker that holds a running job."""
    api.submit()
    worker = api.worker()
    worker.claim()
    return worker


def speaking(worker: FakeWorker, number: int, pause_s: float = 0.002) -> threading.Thread:
    """Says so many things, each in an event of its own, and finishes."""

    def speak() -> None:
        for i in range(number):
            worker.loss((i, 1.0 / (i + 1)))
            time.sleep(pause_s)
        worker.finish()

    thread = threading.Thread(target=speak)
    thread.start()
    return thread


def checkpoint(api: Api, worker: FakeWorker, step: int, stored: int, kept: int) -> int:
    """Stores a segment with a checkpoint; returns the last seq that is stored."""
    segment = store_segment(api.redis, api.blobs, worker.job, stored)
    assert segment is not None
    manifest = {"step": step, "weights": "w", "optimizer": "o", "state": "s", "bytes": {}}
    calls.run(api.redis, calls.checkpoint(worker.job, worker.token, manifest, segment, events_kept=kept))
    return segment.last


def test_a_page_of_events_is_json(api: Api, worker: FakeWorker) -> None:
    worker.loss((1, 2.5))
    path = f"/v1/jobs/{worker.job}/events"
    page = api.http.get(path).json()
    assert [(event["seq"], event["type"], event["attempt"]) for event in page["data"]] == [
        (1, "state", 0),
        (2, "state", 1),
        (3, "metric", 1),
    ]
    assert page["data"][0]["data"] == {"state": "queued"}
    assert page["data"][1]["data"] == {"state": "running", "worker": worker.name}
    assert page["data"][2]["data"] == {"steps": [1], "values": {"loss": [2.5]}}
    assert page["data"][2]["time"].endswith("Z")
    assert (page["last_seq"], page["has_more"]) == (3, False)
    part = api.http.get(path, params={"after": 1, "limit": 1}).json()
    assert ([event["seq"] for event in part["data"]], part["has_more"]) == ([2], True)


def test_a_stream_has_every_event_once_and_then_ends(api: Api, worker: FakeWorker) -> None:
    thread = speaking(worker, 200)
    frames = list(api.frames(worker.job))
    thread.join()
    assert ids_of(iter(frames)) == list(range(1, 204))
    for frame in frames:
        if frame.id is not None:
            assert (data_of(frame)["seq"], data_of(frame)["type"]) == (int(frame.id), frame.event)
    assert (frames[-1].event, frames[-1].id) == ("end", None)
    assert data_of(frames[-1]) == {"state": "succeeded", "last_seq": 203}


def test_a_stream_of_an_ended_job_ends(api: Api, worker: FakeWorker) -> None:
    worker.finish()
    assert [frame.event for frame in api.frames(worker.job)] == ["state", "state", "state", "end"]
    assert [frame.event for frame in api.frames(worker.job, after=3)] == ["end"]


def test_reconnecting_viewers_miss_and_repeat_nothing(api: Api, worker: FakeWorker) -> None:
    thread = speaking(worker, 300, pause_s=0.003)
    seen: list[int] = []
    ended = False
    while not ended:
        for frame in api.frames(worker.job, after=seen[-1] if seen else 0, stop_after=37):
            if frame.id is not None:
                seen.append(int(frame.id))
            ended = frame.event == "end"
    thread.join()
    assert seen == list(range(1, 304))


def test_streams_go_on_after_an_api_restart(api: Api, worker: FakeWorker) -> None:
    seen = ids_of(api.frames(worker.job, stop_after=2))
    worker.loss((1, 1.0), (2, 0.5))
    api.restart()
    worker.loss((3, 0.25))
    worker.finish()
    assert seen + ids_of(api.frames(worker.job, after=seen[-1])) == [1, 2, 3, 4, 5]


def test_many_viewers_see_the_same(api: Api, worker: FakeWorker) -> None:
    results: list[list[int]] = []

    def view() -> None:
        results.append(ids_of(api.frames(worker.job)))

    viewers = [threading.Thread(target=view) for _ in range(20)]
    for viewer in viewers:
        viewer.start()
    speaking(worker, 100).join()
    for viewer in viewers:
        viewer.join()
    assert results == [list(range(1, 104))] * 20


def test_old_events_are_read_from_segments(api: Api, worker: FakeWorker) -> None:
    stored = 0
    for step in range(4):
        for i in range(50):
            worker.loss((50 * step + i, 1.0))
        stored = checkpoint(api, worker, step, stored, kept=10)
    worker.finish()
    assert api.redis.xlen(key("job", worker.job, "events")) < 20
    last = api.http.get(f"/v1/jobs/{worker.job}").json()["last_seq"]
    assert ids_of(api.frames(worker.job)) == list(range(1, last + 1))
    assert ids_of(api.frames(worker.job, after=77)) == list(range(78, last + 1))
    with Client(api.url) as client:
        past = list(client.past_events(worker.job, limit=30))
    assert [event["seq"] for event in past] == list(range(1, last + 1))
    series = api.http.get(f"/v1/jobs/{worker.job}/metrics").json()["series"]
    assert series["loss"]["steps"] == list(range(200))


def test_a_stream_is_never_trimmed_past_the_stored_segment(api: Api, worker: FakeWorker) -> None:
    for i in range(30):
        worker.loss((i, 1.0))
    stored = checkpoint(api, worker, 1, 0, kept=1)
    for i in range(30):
        worker.loss((30 + i, 1.0))
    manifest = {"step": 2, "weights": "w", "optimizer": "o", "state": "s", "bytes": {}}
    calls.run(api.redis, calls.checkpoint(worker.job, worker.token, manifest, None, events_kept=1))
    first: Any = api.redis.xrange(key("job", worker.job, "events"), count=1)
    assert first[0][0] == b"%d-0" % (stored + 1)


def test_a_cursor_of_another_history_is_reset_with_a_snapshot(api: Api, worker: FakeWorker) -> None:
    frames = api.frames(worker.job, after=99)
    reset = next(frames)
    assert (reset.event, reset.id) == ("reset", None)
    assert data_of(reset)["last_seq"] == 2
    assert data_of(reset)["snapshot"]["id"] == worker.job
    worker.finish()
    assert [frame.event for frame in frames] == ["state", "end"]


def test_a_hole_in_the_log_is_a_reset_and_410_never_silent(api: Api, worker: FakeWorker) -> None:
    for i in range(20):
        worker.loss((i, 1.0))
    api.redis.xtrim(key("job", worker.job, "events"), minid="15-0", approximate=False)
    frames = api.frames(worker.job)
    assert data_of(next(frames))["last_seq"] == 22
    worker.finish()
    assert ids_of(frames) == [23]
    series = api.http.get(f"/v1/jobs/{worker.job}/metrics").json()["series"]
    assert series["loss"]["steps"] == list(range(12, 20))
    page = api.http.get(f"/v1/jobs/{worker.job}/events")
    assert (page.status_code, page.json()["code"]) == (410, "stale-cursor")


def test_a_hole_between_segments_is_a_reset_after_what_could_be_read(api: Api, worker: FakeWorker) -> None:
    ends = [0]
    for step in range(3):
        worker.loss((step, 1.0))
        ends.append(checkpoint(api, worker, step, ends[-1], kept=1))
    worker.finish()
    entries = key("job", worker.job, "segments")
    api.redis.lrem(entries, 1, api.redis.lindex(entries, 1))  # type: ignore[arg-type]
    frames = list(api.frames(worker.job))
    assert [int(frame.id) for frame in frames if frame.id] == list(range(1, ends[1] + 1))
    assert [frame.event for frame in frames[-2:]] == ["reset", "end"]


def test_a_lost_segment_is_a_reset_after_what_could_be_read(api: Api, worker: FakeWorker) -> None:
    segments = []
    stored = 0
    for step in range(3):
        for i in range(20):
            worker.loss((20 * step + i, 1.0))
        stored = checkpoint(api, worker, step, stored, kept=1)
        segments.append(stored)
    worker.finish()
    lost = json.loads(api.redis.lindex(key("job", worker.job, "segments"), 1) or b"")  # type: ignore[arg-type]
    api.blobs.delete(lost["blob"])
    frames = list(api.frames(worker.job))
    assert [int(frame.id) for frame in frames if frame.id] == list(range(1, segments[0] + 1))
    assert [frame.event for frame in frames[-2:]] == ["reset", "end"]
    page = api.http.get(f"/v1/jobs/{worker.job}/events", params={"limit": 1000}).json()
    assert page["last_seq"] == segments[0]
    after = {"after": segments[0]}
    assert api.http.get(f"/v1/jobs/{worker.job}/events", params=after).status_code == 410


def test_closing_a_training_stream_does_not_cancel_the_job(api: Api, worker: FakeWorker) -> None:
    ids_of(api.frames(worker.job, stop_after=1))
    assert worker.loss((1, 1.0)) == "go"
    assert api.http.get(f"/v1/jobs/{worker.job}").json()["state"] == "running"


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "9" * 30])
def test_a_bad_cursor_is_refused(api: Api, worker: FakeWorker, cursor: str) -> None:
    headers = {"Accept": "text/event-stream", "Last-Event-ID": cursor}
    answer = api.http.get(f"/v1/jobs/{worker.job}/events", headers=headers)
    assert (answer.status_code, answer.json()["param"]) == (422, "Last-Event-ID")


def test_the_client_follows_to_the_end(api: Api, worker: FakeWorker) -> None:
    thread = speaking(worker, 50)
    with Client(api.url) as client:
        events = list(client.events(worker.job))
    thread.join()
    assert [event["seq"] for event in events] == list(range(1, 54))
    assert events[-1]["data"]["state"] == "succeeded"


# Metrics -------------------------------------------------------------------------------------------------


def test_metrics_are_columns_and_follow_the_job(api: Api, worker: FakeWorker) -> None:
    values = {"loss": [3.0, 2.0, None], "val_loss": [None, 2.5, None]}
    worker.say(("metric", {"steps": [1, 2, 3], "values": values, "nonfinite": ["loss"]}))
    path = f"/v1/jobs/{worker.job}/metrics"
    series = api.http.get(path).json()["series"]
    assert series == {
        "loss": {"steps": [1, 2, 3], "values": [3.0, 2.0, None]},
        "val_loss": {"steps": [2], "values": [2.5]},
    }
    worker.loss((4, 1.5))
    part = api.http.get(path, params={"keys": "loss", "from_step": 2, "to_step": 4}).json()["series"]
    assert part == {"loss": {"steps": [2, 3, 4], "values": [2.0, None, 1.5]}}


def test_points_of_a_lost_attempt_are_dropped_where_the_next_begins(api: Api, worker: FakeWorker) -> None:
    worker.say(
        ("metric", {"steps": [1, 2, 3], "values": {"loss": [3.0, 2.0, 9.0], "val_loss": [None, None, 9.0]}})
    )
    calls.run(api.redis, calls.release(worker.job, worker.token, "crash"))
    worker.claim()
    worker.loss((2, 2.0), (3, 1.0))
    series = api.http.get(f"/v1/jobs/{worker.job}/metrics").json()["series"]
    assert series["loss"] == {"steps": [1, 2, 3], "values": [3.0, 2.0, 1.0]}
    assert series["val_loss"] == {"steps": [], "values": []}


def test_thinned_metrics_keep_the_extremes(api: Api, worker: FakeWorker) -> None:
    for start in range(0, 5000, 500):
        worker.loss(
            *((i, -50.0 if i == 2345 else 70.0 if i == 4001 else 1.0) for i in range(start, start + 500))
        )
    path = f"/v1/jobs/{worker.job}/metrics"
    thin = api.http.get(path, params={"points": 100}).json()["series"]["loss"]
    assert len(thin["steps"]) <= 100
    assert thin["steps"] == sorted(set(thin["steps"]))
    assert (thin["steps"][0], thin["steps"][-1]) == (0, 4999)
    assert (min(thin["values"]), max(thin["values"])) == (-50.0, 70.0)


# Stopping ------------------------------------------------------------------------------------------------


def test_the_server_stops_with_open_streams_and_ends_them_cleanly(tmp_path: Path) -> None:
    with Api(tmp_path) as api:
        job = api.submit()["id"]
        ends: list[str] = []
        opened = threading.Barrier(6)

        def view() -> None:
            try:
                lines = stream_lines(api.url, job, opened)
                ends.append("clean" if list(lines) else "empty")
            except httpx.TransportError as error:
                ends.append(repr(error))

        viewers = [threading.Thread(target=view) for _ in range(5)]
        for viewer in viewers:
            viewer.start()
        opened.wait()
        started = time.monotonic()
        api.running.stop()
        took = time.monotonic() - started
        for viewer in viewers:
            viewer.join()
    assert ends == ["clean"] * 5
    assert took < api.running.server.config.timeout_graceful_shutdown  # type: ignore[operator]


def stream_lines(url: str, job: str, opened: threading.Barrier) -> Iterator[str]:
    with (
        httpx.Client(trust_env=False, timeout=30) as http,
        http.stream("GET", f"{url}/v1/jobs/{job}/events", headers={"Accept": "text/event-stream"}) as answer,
    ):
        lines = answer.iter_lines()
        for line in lines:
            if line.startswith("data:"):
                assert json.loads(line[5:])["seq"] == 1
                break
        opened.wait()
        yield "opened"
        yield from lines
