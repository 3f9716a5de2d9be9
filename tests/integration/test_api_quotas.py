"""What one key may have at a time: queued jobs, running jobs, stored bytes; by itself or by the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from api_rig import TRAIN, Api

from service.jobs import calls
from service.jobs.records import key

ADMIN = f"key_root_{'a' * 40}"
Holder = Callable[..., httpx.Client]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys").write_text(f"{ADMIN}\n")
    with Api(folder, api_key_file=folder / "keys", queued_limit=3, bytes_limit=1000) as api:
        yield api


@pytest.fixture
def holder(guarded: Api) -> Iterator[Holder]:
    """Makes clients, each with a new key of these limits."""
    clients = []

    def make(**limits: int) -> httpx.Client:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        made = guarded.http.post("/v1/keys", json={"limits": limits}, headers=headers).json()
        clients.append(guarded.client(headers={"Authorization": f"Bearer {made['secret']}"}))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
    guarded.redis.flushall()


def statuses(http: httpx.Client, number: int) -> list[int]:
    return [http.post("/v1/jobs", json=TRAIN).status_code for _ in range(number)]


def upload(http: httpx.Client, size: int) -> httpx.Response:
    return http.post("/v1/files", files={"file": ("a", b"x" * size)})


def test_each_key_has_a_limit_of_queued_jobs_of_its_own(holder: Holder) -> None:
    ann, bob = holder(queued=1), holder()
    assert statuses(ann, 2) == [202, 429]
    assert statuses(bob, 4) == [202, 202, 202, 429]  # as the settings say
    refused = ann.post("/v1/jobs", json=TRAIN)
    assert refused.json()["code"] == "quota"
    assert int(refused.headers["retry-after"]) > 0
    job = ann.get("/v1/jobs").json()["data"][0]["id"]
    ann.post(f"/v1/jobs/{job}/cancel")
    assert statuses(ann, 1) == [202]


def test_only_so_many_jobs_of_a_key_run_and_the_others_of_others_go_first(
    guarded: Api, holder: Holder
) -> None:
    ann, bob = holder(running=1), holder()
    for _ in range(2):
        ann.post("/v1/jobs", json={**TRAIN, "priority": 5})
    other = bob.post("/v1/jobs", json=TRAIN).json()["id"]
    first, second, third = guarded.worker(), guarded.worker(), guarded.worker()
    mine = first.claim().job.id
    assert second.claim().job.id == other
    call = calls.claim(third.lane, third.name, "n")
    assert calls.run(guarded.redis, call) is None
    ann.post(f"/v1/jobs/{mine}/cancel")
    assert calls.run(guarded.redis, call) is None  # until the worker has confirmed
    first.finish("cancelled")
    assert third.claim().job.owner == owner_of(guarded, mine)
    second.finish()
    third.finish()


def owner_of(api: Api, job: str) -> str:
    owner = api.redis.hget(key("job", job), "owner")
    assert owner is not None
    return owner.decode()


def test_uploads_count_until_they_are_deleted(guarded: Api, holder: Holder) -> None:
    http = holder(bytes=100)
    file = upload(http, 60)
    assert file.status_code == 201
    refused = upload(http, 41)
    assert (refused.status_code, refused.json()["code"]) == (429, "quota-bytes")
    assert refused.headers["x-should-retry"] == "false"
    assert upload(http, 40).status_code == 201
    assert statuses(http, 1) == [429]
    for _ in range(2):
        http.delete(f"/v1/files/{file.json()['id']}")
    assert upload(http, 60).status_code == 201
    assert len(http.get("/v1/files").json()["data"]) == 2
    assert upload(holder(), 1001).status_code == 429  # as the settings say


def test_checkpoints_count_as_long_as_their_job_keeps_them(guarded: Api, holder: Holder) -> None:
    http = holder(bytes=100)
    job = http.post("/v1/jobs", json=TRAIN).json()["id"]
    worker = guarded.worker()
    worker.claim()

    def save(step: int, **more: Any) -> None:
        sizes = {"weights": 10, "optimizer": 20, "state": 1}
        manifest = {"step": step, **{part: f"{part}-{step}" for part in sizes}, "bytes": sizes, **more}
        calls.run(guarded.redis, calls.checkpoint(job, worker.token, manifest))

    owner = owner_of(guarded, job)

    def used() -> int:
        return int(guarded.redis.hget(key("usage", owner), "bytes") or 0)

    used_after = []
    for step in (1, 2, 3, 4):
        save(step, **({"sample": True} if step == 1 else {}))
        save(step)  # sent again: nothing changes
        used_after.append(used())
    assert used_after[:2] == [31, 62]
    assert used_after[2] <= 93
    worker.finish()
    assert used() == used_after[-1]
    assert upload(http, 100 - used() + 1).status_code == 429
    assert http.delete(f"/v1/jobs/{job}").status_code == 204
    assert used() == 0


def quotas(answer: httpx.Response) -> dict[str, int]:
    """What is left of each quota, by an answer's header."""
    items = [item.strip().partition(";r=") for item in answer.headers["ratelimit"].split(",")]
    return {name.strip('"'): int(left) for name, _, left in items}


def test_answers_tell_what_is_left_of_the_quotas(guarded: Api, holder: Holder) -> None:
    http = holder(queued=2, running=1, bytes=100)
    first = http.post("/v1/jobs", json=TRAIN)
    assert first.headers["ratelimit-policy"] == (
        '"queued";q=2;qu="jobs", "running";q=1;qu="jobs", "bytes";q=100;qu="content-bytes"'
    )
    assert quotas(first) == {"queued": 1, "running": 1, "bytes": 100}
    worker = guarded.worker()
    worker.claim()
    assert quotas(http.post("/v1/jobs", json=TRAIN)) == {"queued": 1, "running": 0, "bytes": 100}
    http.post(f"/v1/jobs/{worker.job}/cancel")  # which still runs until the worker has heard of it
    again = http.post("/v1/jobs", json=TRAIN)
    assert (again.status_code, quotas(again)) == (202, {"queued": 0, "running": 0, "bytes": 100})
    refused = http.post("/v1/jobs", json=TRAIN)
    assert (refused.status_code, quotas(refused)["queued"]) == (429, 0)
    worker.finish("cancelled")

    assert quotas(upload(http, 60)) == {"bytes": 40}
    refused = upload(http, 41)
    assert (refused.status_code, quotas(refused)) == (429, {"bytes": 40})
    assert upload(http, 40).status_code == 201
    job = http.get("/v1/jobs?state=queued").json()["data"][0]["id"]
    http.post(f"/v1/jobs/{job}/cancel")
    refused = http.post("/v1/jobs", json=TRAIN)
    assert (refused.json()["code"], quotas(refused)["bytes"]) == ("quota-bytes", 0)


def test_what_has_no_bound_is_not_told(holder: Holder) -> None:
    http = holder(queued=0, bytes=2**53)
    answer = http.post("/v1/jobs", json=TRAIN)
    assert answer.headers["ratelimit-policy"] == f'"bytes";q={10**15 - 1};qu="content-bytes"'
    assert "ratelimit" not in upload(holder(bytes=0), 1).headers


def test_the_same_answer_again_tells_what_is_left_now(holder: Holder) -> None:
    http = holder(queued=3)
    for left in (2, 2):
        answer = http.post("/v1/jobs", json=TRAIN, headers={"Idempotency-Key": "k"})
        assert quotas(answer)["queued"] == left
