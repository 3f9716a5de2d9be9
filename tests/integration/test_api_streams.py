"""Streams of several jobs, and of all changes of state: everything once, however often they break."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import pytest
from api_rig import TRAIN, Api, FakeWorker

from service.client import Frame, parse_frames
from service.ids import new_id
from service.jobs import calls
from service.jobs.lanes import BATCH
from service.jobs.records import key


@pytest.fixture(autouse=True)
def empty(api: Api) -> None:
    api.redis.flushall()


def stream(api: Api, **params: str) -> Iterator[Frame]:
    with api.http.stream("GET", "/v1/events", params=params) as answer:
        assert answer.status_code == 200, answer.read()
        yield from parse_frames(answer.iter_lines())


def running(api: Api) -> FakeWorker:
    api.submit()
    worker = api.worker()
    worker.claim()
    return worker


def data(frame: Frame) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(frame.data)
    return found


def test_every_event_of_every_job_comes_once_however_often_the_stream_breaks(api: Api) -> None:
    workers = [running(api) for _ in range(3)]
    for number, worker in enumerate(workers):
        worker.loss(*((step, 1.0 / step) for step in range(1, 20)))
        for step in range(20, 30 + number):
            worker.loss((step, 0.0))
        worker.finish()
    jobs = ",".join(worker.job for worker in workers)
    cursors: dict[str, int] = {}
    seen: list[tuple[str, int]] = []
    ended: set[str] = set()
    length = 5
    while len(ended) < 3:
        after = ",".join(f"{job}:{seq}" for job, seq in cursors.items())
        ended.clear()
        with closing(stream(api, jobs=jobs, after=after)) as frames:
            for frame in islice(frames, length):
                if frame.event == "end":
                    ended.add(data(frame)["job"])
                else:
                    job, _, seq = (frame.id or "").partition(":")
                    assert (data(frame)["job"], data(frame)["seq"]) == (job, int(seq))
                    seen.append((job, int(seq)))
                    cursors[job] = int(seq)
        length += 3
    for worker in workers:
        last = api.http.get(f"/v1/jobs/{worker.job}").json()["last_seq"]
        assert [seq for job, seq in seen if job == worker.job] == list(range(1, last + 1))


def test_only_the_types_asked_for_come(api: Api) -> None:
    worker = running(api)
    worker.loss((1, 1.0))
    worker.say(("progress", {"step": 1, "steps": 10}))
    worker.finish()
    frames = list(stream(api, jobs=worker.job, types="progress,state"))
    assert [frame.event for frame in frames] == ["state", "state", "progress", "state", "end"]
    assert [frame.id for frame in frames[:4]] == [f"{worker.job}:{seq}" for seq in (1, 2, 4, 5)]


def test_a_cursor_of_another_history_resets_that_job_alone(api: Api) -> None:
    one, two = running(api), running(api)
    for worker in (one, two):
        worker.finish()
    frames = list(stream(api, jobs=f"{one.job},{two.job}", after=f"{one.job}:99"))
    (reset,) = [frame for frame in frames if frame.event == "reset"]
    assert (data(reset)["job"], data(reset)["last_seq"], reset.id) == (one.job, 3, None)
    assert data(reset)["snapshot"]["id"] == one.job
    assert [frame.id for frame in frames if frame.id] == [f"{two.job}:{seq}" for seq in (1, 2, 3)]


@pytest.mark.parametrize(
    "params, status, param",
    [
        ({"jobs": ""}, 422, "jobs"),
        ({"jobs": ",".join(new_id("job") for _ in range(33))}, 422, "jobs"),
        ({"jobs": new_id("job")}, 404, "job_id"),
        ({"jobs": "JOB", "after": "x:1"}, 422, "after"),
        ({"jobs": "JOB", "types": "metric,gossip"}, 422, "types"),
        ({"jobs": "*", "after": "yesterday"}, 422, "after"),
        ({}, 422, "jobs"),
    ],
)
def test_what_can_not_be_followed_is_refused(
    api: Api, params: dict[str, str], status: int, param: str
) -> None:
    job = api.submit()["id"]
    given = {name: value.replace("JOB", job) for name, value in params.items()}
    answer = api.http.get("/v1/events", params=given)
    assert (answer.status_code, answer.json()["param"]) == (status, param)


def test_the_list_and_the_changes_after_the_reset_are_the_whole(api: Api) -> None:
    before = api.submit()["id"]
    with closing(stream(api, jobs="*")) as frames:
        assert data(next(frames))["after"]
        listed = {job["id"]: job["state"] for job in api.http.get("/v1/jobs").json()["data"]}
        assert listed == {before: "queued"}
        hidden = calls.NewJob(new_id("job"), "sample", BATCH, {}, ephemeral=True)
        calls.run(api.redis, calls.accept(hidden))
        later = api.submit()["id"]
        api.http.post(f"/v1/jobs/{before}/cancel")
        changes = [data(next(frames)) for _ in range(2)]
    assert [(change["job"], change["state"]) for change in changes] == [
        (later, "queued"),
        (before, "cancelled"),
    ]
    assert changes[0].keys() == {"job", "kind", "state", "seq", "time"}


def test_a_deleted_job_is_told_as_the_last_of_its_changes(api: Api) -> None:
    job = api.submit()["id"]
    with closing(stream(api, jobs="*")) as frames:
        next(frames)
        api.http.post(f"/v1/jobs/{job}/cancel")
        api.http.delete(f"/v1/jobs/{job}")
        told = [data(next(frames)) for _ in range(2)]
    assert [(each["job"], each["state"]) for each in told] == [(job, "cancelled"), (job, "deleted")]


def test_only_changes_of_ones_own_jobs_are_told(api: Api) -> None:
    admin = api.http.post("/v1/keys", json={"scopes": ["admin"]}).json()["secret"]
    headers = {"Authorization": f"Bearer {admin}"}
    bob = api.http.post("/v1/keys", json={"owner": "bob"}, headers=headers).json()["secret"]
    others = api.http.post("/v1/jobs", json=TRAIN, headers=headers).json()["id"]
    with api.client(headers={"Authorization": f"Bearer {bob}"}) as client:
        assert client.get("/v1/events", params={"jobs": others}).status_code == 404
        with client.stream("GET", "/v1/events", params={"jobs": "*"}) as answer:
            frames = parse_frames(answer.iter_lines())
            assert next(frames).event == "reset"
            api.http.post("/v1/jobs", json=TRAIN, headers=headers)
            own = client.post("/v1/jobs", json=TRAIN).json()["id"]
            assert data(next(frames))["job"] == own


def test_a_watcher_that_comes_back_misses_no_change_and_gets_none_twice(api: Api) -> None:
    with closing(stream(api, jobs="*")) as frames:
        after = data(next(frames))["after"]
        api.submit()
        after = next(frames).id or after
    jobs = [api.submit()["id"] for _ in range(20)]
    seen: list[str] = []
    while len(seen) < len(jobs):
        with closing(stream(api, jobs="*", after=after)) as frames:
            for frame in islice(frames, min(3, len(jobs) - len(seen))):
                assert frame.event == "state"
                seen.append(data(frame)["job"])
                after = frame.id or ""
    assert seen == jobs
    api.restart()
    new = api.submit()["id"]
    with closing(stream(api, jobs="*", after=after)) as frames:
        assert data(next(frames))["job"] == new


def test_a_cursor_that_the_capped_stream_no_longer_holds_is_a_reset(api: Api) -> None:
    with closing(stream(api, jobs="*")) as frames:
        next(frames)
        api.submit()
        after = next(frames).id or ""
    api.submit()
    api.redis.xtrim(key("changes"), maxlen=1, approximate=False)
    with closing(stream(api, jobs="*", after=after)) as frames:
        reset = next(frames)
        assert (reset.event, reset.id) == ("reset", None)
        made = api.http.post("/v1/jobs", json=TRAIN).json()["id"]
        assert data(next(frames))["job"] == made
