"""The job list's filters against a filter in plain Python, and the place in a fair queue."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import Any

import pytest
from api_rig import TRAIN, Api

from service.ids import new_id
from service.jobs import calls
from service.jobs.lanes import BATCH

NAMES = ("", "a", "b")
TEAMS: tuple[dict[str, str], ...] = ({}, {"team": "blue"}, {"team": "blue", "x]": 'q"[é'}, {"x]": "z"})


def listed(api: Api, **params: Any) -> list[str]:
    """Every page of the list, in pages of two."""
    found: list[str] = []
    more: dict[str, Any] = {}
    while True:
        page = api.http.get("/v1/jobs", params={**params, **more, "limit": 2}).json()
        assert "data" in page, page
        found += [job["id"] for job in page["data"]]
        if not page["has_more"]:
            return found
        more = {"after": page["last_id"]}


@pytest.fixture(scope="module")
def jobs(api: Api) -> list[dict[str, Any]]:
    """Jobs of every name and metadata, some of them ended; in order of creation."""
    made = []
    for i, (name, metadata) in enumerate(itertools.product(NAMES, TEAMS)):
        job = api.submit({**TRAIN, "name": name, "metadata": metadata})
        if i % 3 == 0:
            job = api.http.post(f"/v1/jobs/{job['id']}/cancel").json()
        made.append(job)
    return made


@pytest.mark.parametrize("name", [None, "a", "nobody"])
@pytest.mark.parametrize("metadata", [{}, {"team": "blue"}, {"x]": 'q"[é'}, {"team": "blue", "x]": 'q"[é'}])
@pytest.mark.parametrize("state", [None, "cancelled", "queued,running"])
def test_filters_select_what_fits_all_of_them(
    api: Api, jobs: list[dict[str, Any]], name: str | None, metadata: dict[str, str], state: str | None
) -> None:
    expected = [
        job["id"]
        for job in jobs
        if (name is None or job["name"] == name)
        and metadata.items() <= job["metadata"].items()
        and (state is None or job["state"] in state.split(","))
    ]
    given = {"name": name, "state": state, **{f"metadata[{key}]": value for key, value in metadata.items()}}
    params = {key: value for key, value in given.items() if value is not None}
    assert listed(api, **params, order="asc") == expected
    assert listed(api, **params) == expected[::-1]


def test_the_list_is_cut_at_times_of_creation(api: Api, jobs: list[dict[str, Any]]) -> None:
    times = [job["created_at"] for job in jobs]
    for after, before in itertools.combinations([None, times[0], times[5], times[-1]], 2):
        expected = [
            job["id"]
            for job in jobs
            if (after is None or job["created_at"] > after) and (before is None or job["created_at"] < before)
        ]
        given = {"created_after": after, "created_before": before}
        params = {key: value for key, value in given.items() if value is not None}
        assert listed(api, **params, order="asc") == expected
        assert listed(api, **params) == expected[::-1]


def test_a_filter_looks_past_many_jobs_that_do_not_fit(api: Api) -> None:
    api.redis.flushall()
    first = api.submit()["id"]
    second = api.submit()["created_at"]
    for _ in range(600):
        calls.run(api.redis, calls.accept(calls.NewJob(new_id("job"), "train", BATCH, {})))
    assert listed(api, created_before=second) == [first]


def test_an_ambiguous_time_and_too_many_entries_are_refused(api: Api) -> None:
    for params, param in (
        ({"created_after": "2026-01-01T00:00:00"}, "created_after"),
        ({"created_before": "yesterday"}, "created_before"),
        ({f"metadata[{i}]": "" for i in range(17)}, "metadata"),
        ({"metadata[]": "blue"}, "metadata[]"),
        ({"metadata[team": "blue"}, "metadata[team"),
        ({"state": ["queued", "running"]}, "state"),
        ({"metadata[team]": ["red", "blue"]}, "metadata[team]"),
    ):
        answer = api.http.get("/v1/jobs", params=params)
        assert (answer.status_code, answer.json()["param"]) == (422, param)


def test_a_deleted_job_leaves_no_entry_behind(api: Api) -> None:
    before = {*api.redis.scan_iter("gradmill:labelled:*")}
    job = api.submit({**TRAIN, "name": "short-lived", "metadata": {"only": "here"}})["id"]
    assert len({*api.redis.scan_iter("gradmill:labelled:*")}) == len(before) + 4
    api.http.post(f"/v1/jobs/{job}/cancel")
    assert api.http.delete(f"/v1/jobs/{job}").status_code == 204
    assert {*api.redis.scan_iter("gradmill:labelled:*")} == before
    assert listed(api, name="short-lived") == []


def test_owners_take_turns_and_the_place_says_whose_turn_comes_when(api: Api) -> None:
    api.redis.flushall()
    owners = ["ann"] * 5 + ["bob"] * 2 + ["ann", "cy"]
    ids = []
    for owner in owners:
        new = calls.NewJob(new_id("job"), "train", BATCH, {}, owner=owner)
        ids.append(calls.run(api.redis, calls.accept(new)).job)
    places = dict(zip(ids, calls.run(api.redis, calls.places(ids)), strict=True))
    order = sorted(ids, key=lambda job: places[job].place)
    assert {job["id"]: job["queue_position"] for job in api.http.get("/v1/jobs").json()["data"]} == {
        job: place.place for job, place in places.items()
    }
    worker = api.worker()
    claimed = [worker.claim().job for _ in ids]
    assert [job.id for job in claimed] == order
    assert [job.owner for job in claimed[:5]] == ["ann", "bob", "cy", "ann", "bob"]


def test_a_queued_job_tells_when_it_will_start_as_soon_as_a_worker_lives(api: Api) -> None:
    api.redis.flushall()
    jobs = [api.submit() for _ in range(3)]
    assert [(job["queue_position"], job["estimated_start"]) for job in jobs] == [
        (1, None),
        (2, None),
        (3, None),
    ]
    seconds = jobs[0]["estimate"]["seconds"]
    worker = api.worker().live()
    worker.claim()
    first, second = (api.http.get(f"/v1/jobs/{job['id']}").json() for job in jobs[1:])
    gap = datetime.fromisoformat(second["estimated_start"]) - datetime.fromisoformat(first["estimated_start"])
    assert abs(gap - timedelta(seconds=seconds)) < timedelta(seconds=1)
    worker.finish()
    free = api.http.get(f"/v1/jobs/{jobs[1]['id']}").json()
    assert free["queue_position"] == 1
    assert free["estimated_start"] <= first["estimated_start"]
