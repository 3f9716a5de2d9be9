"""Jobs over HTTP: create, list, read, cancel, pause, resume, retry, delete."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from api_rig import SPEC, TRAIN, Api, train_with

from service.ids import is_id
from service.jobs import calls
from service.jobs.records import key
from service.versions import NUMERICS_VERSION
from workers.resume import starting_points


@pytest.fixture(autouse=True)
def empty(api: Api) -> None:
    api.redis.flushall()


def test_a_created_job_has_a_location_and_can_be_read_there(api: Api) -> None:
    answer = api.http.post("/v1/jobs", json={**TRAIN, "name": "first", "metadata": {"a": "b"}, "priority": 3})
    job = answer.json()
    assert answer.status_code == 202
    assert is_id(job["id"], "job")
    read = api.http.get(answer.headers["location"]).json()
    assert read == job
    assert (job["state"], job["name"], job["metadata"], job["priority"]) == ("queued", "first", {"a": "b"}, 3)
    assert (job["queue_position"], job["last_seq"], job["attempts"]) == (1, 1, [])
    assert set(job["links"]) >= {"self", "cancel", "events", "metrics", "checkpoints"}


def test_the_stored_spec_is_whole_and_its_text_is_a_blob(api: Api) -> None:
    spec = api.submit()["spec"]
    assert spec["corpus"].keys() == {"blob"}
    assert api.blobs.get(spec["corpus"]["blob"]).decode() == SPEC["corpus"]["text"]
    assert {"batch", "lr", "optimizer", "schedule", "seed", "checkpoint_every_s"} <= spec.keys()


def test_a_dry_run_prices_the_job_and_leaves_nothing(api: Api) -> None:
    fresh = train_with(corpus={"text": "never stored " * 9})
    answer = api.http.post("/v1/jobs", params={"dry_run": "true"}, json=fresh)
    assert answer.status_code == 200
    body = answer.json()
    assert body["estimate"].keys() >= {"parameters", "step_flops", "flops", "memory_bytes", "seconds"}
    assert body["spec"]["batch"] == 32
    assert api.queued() == 0
    assert api.http.get("/v1/jobs").json()["data"] == []
    with pytest.raises(LookupError):
        api.blobs.get(body["spec"]["corpus"]["blob"])


def test_one_key_and_one_body_make_one_job(api: Api) -> None:
    with ThreadPoolExecutor(16) as pool:
        headers = {"Idempotency-Key": "same"}
        answers = list(pool.map(lambda _: api.http.post("/v1/jobs", json=TRAIN, headers=headers), range(50)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert api.queued() == 1


def test_one_key_and_another_body_is_a_conflict_that_clients_do_not_repeat(api: Api) -> None:
    first = api.submit(**{"Idempotency-Key": "k"})
    answer = api.http.post("/v1/jobs", json=train_with(steps=11), headers={"Idempotency-Key": "k"})
    assert answer.status_code == 409
    assert answer.headers["x-should-retry"] == "false"
    assert answer.json()["code"] == "idempotency-conflict"
    assert api.queued() == 1
    assert api.http.get(f"/v1/jobs/{first['id']}").status_code == 200


def test_pages_are_disjoint_and_whole(api: Api) -> None:
    made = [api.submit()["id"] for _ in range(7)]
    seen: list[str] = []
    after: str | None = None
    while True:
        params = {"limit": "3"} | ({"after": after} if after else {})
        page = api.http.get("/v1/jobs", params=params).json()
        seen += [job["id"] for job in page["data"]]
        assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][-1]["id"])
        after = page["last_id"]
        if not page["has_more"]:
            break
    assert seen == made[::-1]
    ascending = api.http.get("/v1/jobs", params={"order": "asc", "limit": 100}).json()["data"]
    assert [job["id"] for job in ascending] == made


def test_the_list_filters_by_state_and_kind(api: Api) -> None:
    kept, ended = api.submit()["id"], api.submit()["id"]
    api.http.post(f"/v1/jobs/{ended}/cancel")

    def ids(**params: str) -> list[str]:
        return [job["id"] for job in api.http.get("/v1/jobs", params=params).json()["data"]]

    assert ids(state="cancelled") == [ended]
    assert ids(state="queued", kind="train") == [kept]
    assert ids(state="queued,cancelled") == [ended, kept]
    assert ids(kind="sample") == []
    assert api.http.get("/v1/jobs", params={"state": "done"}).json()["param"] == "state"


def test_a_queued_job_is_cancelled_at_once_and_never_starts(api: Api) -> None:
    job = api.submit()["id"]
    answer = api.http.post(f"/v1/jobs/{job}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    assert calls.run(api.redis, calls.claim("cpu-batch", "w", "n")) is None
    again = api.http.post(f"/v1/jobs/{job}/cancel")
    assert (again.status_code, again.json()) == (200, answer.json())


def test_a_running_job_is_cancelled_when_its_worker_confirms(api: Api) -> None:
    job = api.submit()["id"]
    worker = api.worker()
    worker.claim()
    answer = api.http.post(f"/v1/jobs/{job}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (202, "cancelling")
    assert worker.say() == "cancel"
    assert worker.finish("cancelled") == "cancelled"
    assert api.http.get(f"/v1/jobs/{job}").json()["state"] == "cancelled"


def test_pause_and_resume(api: Api) -> None:
    job = api.submit()["id"]
    assert api.http.post(f"/v1/jobs/{job}/pause").json()["state"] == "paused"
    assert api.http.post(f"/v1/jobs/{job}/resume").json()["state"] == "queued"
    worker = api.worker()
    worker.claim()
    assert api.http.post(f"/v1/jobs/{job}/pause").json()["pausing"] is True
    assert worker.say() == "pause"
    assert calls.run(api.redis, calls.release(job, worker.token, "pause")).outcome == "paused"
    assert api.http.post(f"/v1/jobs/{job}/resume").status_code == 202
    api.http.post(f"/v1/jobs/{job}/cancel")
    assert api.http.post(f"/v1/jobs/{job}/pause").status_code == 409
    assert api.http.post(f"/v1/jobs/{job}/resume").status_code == 409


def test_a_retry_is_a_new_job_that_goes_on_from_the_checkpoint(api: Api) -> None:
    old = api.submit()["id"]
    assert api.http.post(f"/v1/jobs/{old}/retry").status_code == 409
    worker = api.worker()
    worker.claim()
    manifest = {"step": 5, "weights": "w", "optimizer": "o", "state": "s", "bytes": {}}
    manifest["numerics_version"] = NUMERICS_VERSION
    calls.run(api.redis, calls.checkpoint(old, worker.token, manifest))
    worker.finish("failed", code="non-finite-loss", message="The loss is nan.")
    failed = api.http.get(f"/v1/jobs/{old}").json()
    assert failed["error"] == {"code": "non-finite-loss", "message": "The loss is nan."}
    answer = api.http.post(f"/v1/jobs/{old}/retry")
    job = answer.json()
    assert (answer.status_code, job["retry_of"], job["spec"]) == (202, old, failed["spec"])
    claim = worker.claim()
    assert claim.job.id == job["id"]
    assert [each["step"] for each in starting_points(api.redis, claim.job)] == [5]


def test_only_ended_jobs_are_deleted(api: Api) -> None:
    job = api.submit()["id"]
    assert api.http.delete(f"/v1/jobs/{job}").status_code == 409
    api.http.post(f"/v1/jobs/{job}/cancel")
    assert api.http.delete(f"/v1/jobs/{job}").status_code == 204
    assert api.http.get(f"/v1/jobs/{job}").status_code == 404
    assert api.redis.keys(f"{key('job', job)}*") == []


@pytest.mark.parametrize(
    "method, path", [("GET", ""), ("POST", "/cancel"), ("GET", "/events"), ("DELETE", "")]
)
@pytest.mark.parametrize("job", ["job_00000000000000000000000000", "nonsense", "job_%2e%2e"])
def test_an_unknown_job_is_404(api: Api, method: str, path: str, job: str) -> None:
    answer = api.http.request(method, f"/v1/jobs/{job}{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["error"]["code"] == answer.json()["code"]


def test_an_unchanged_job_is_304(api: Api) -> None:
    job = api.submit()["id"]
    tag = api.http.get(f"/v1/jobs/{job}").headers["etag"]
    assert api.http.get(f"/v1/jobs/{job}", headers={"If-None-Match": tag}).status_code == 304
    api.worker().claim()
    assert api.http.get(f"/v1/jobs/{job}", headers={"If-None-Match": tag}).status_code == 200


def test_prefer_wait_answers_when_the_job_has_ended(api: Api) -> None:
    worker = api.worker()

    def work() -> None:
        while api.queued() == 0:
            time.sleep(0.01)
        worker.claim()
        worker.finish(result={"x": 1})

    thread = threading.Thread(target=work)
    thread.start()
    answer = api.http.post("/v1/jobs", json=TRAIN, headers={"Prefer": "respond-async, wait=20"})
    thread.join()
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["result"]) == ("succeeded", {"x": 1})
    assert answer.headers["preference-applied"] == "wait=20"


def test_prefer_wait_gives_up_in_time(api: Api) -> None:
    answer = api.http.post("/v1/jobs", json=TRAIN, headers={"Prefer": "wait=1"})
    assert (answer.status_code, answer.json()["state"]) == (202, "queued")


def test_accepted_jobs_bring_tickets_for_live_workers_only(api: Api) -> None:
    def tickets() -> Any:
        return api.redis.llen(key("rq", "queue", "cpu-batch"))

    api.submit()
    assert tickets() == 0
    api.worker().live()
    for _ in range(5):
        api.submit()
    deadline = time.monotonic() + 10
    while tickets() < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert tickets() in (2, 3)  # the waker and the sweeper may both bring the last one, which is harmless


def test_a_lost_job_is_taken_back_by_the_sweeper(api: Api) -> None:
    job = api.submit()["id"]
    calls.run(api.redis, calls.claim("cpu-batch", "w", "n", 50))
    types = [frame for frame in api.frames(job, stop_after=3) if frame.id]
    assert '"reason":"worker-lost"' in types[-1].data
    lost = api.http.get(f"/v1/jobs/{job}").json()
    assert (lost["state"], lost["failures"], lost["attempts"][0]["outcome"]) == ("queued", 1, "worker-lost")


def test_workers_and_queues(api: Api) -> None:
    job = api.submit()["id"]
    worker = api.worker().live()
    queue = next(each for each in api.http.get("/v1/queues").json()["data"] if each["id"] == worker.lane)
    assert (queue["queued"], queue["live_workers"]) == (1, 1)
    assert queue["oldest_age_s"] >= 0
    assert api.http.get("/readyz").json()["workers"][worker.lane] == 1
    worker.claim()
    (seen,) = api.http.get("/v1/workers").json()["data"]
    assert (seen["id"], seen["lane"], seen["job"]) == (worker.name, worker.lane, job)
    worker.finish()
    assert api.http.get("/v1/workers").json()["data"][0]["job"] is None
    worker.leave()
    assert api.http.get("/v1/workers").json()["data"] == []


def test_a_key_whose_job_is_deleted_makes_a_new_job(api: Api) -> None:
    headers = {"Idempotency-Key": "of-a-deleted-job"}
    first = api.submit(**headers)["id"]
    api.http.post(f"/v1/jobs/{first}/cancel")
    assert api.http.post("/v1/jobs", json=TRAIN, headers=headers).json()["id"] == first
    assert api.http.delete(f"/v1/jobs/{first}").status_code == 204
    second = api.submit(**headers)["id"]
    assert second != first
    assert api.http.post("/v1/jobs", json=TRAIN, headers=headers).json()["id"] == second


@pytest.mark.parametrize("text", ["to be\0" * 50, "\ufeff", ""])
def test_a_text_that_the_worker_would_refuse_is_refused_here(api: Api, text: str) -> None:
    answer = api.http.post("/v1/jobs", json=train_with(corpus={"text": text}))
    assert (answer.status_code, answer.json()["param"]) == (422, "spec.corpus.text")


def test_a_text_is_measured_as_the_worker_reads_it(api: Api) -> None:
    """18 characters are the least for windows of 8; a mark and carriage returns are none."""
    few, enough = "\ufeff" + "ab\r\n" * 5, "\ufeff" + "ab\r\n" * 6
    answer = api.http.post("/v1/jobs", json=train_with(corpus={"text": few}))
    assert answer.json()["param"] == "spec.model.seq_len"
    answer = api.http.post("/v1/jobs", json=train_with(corpus={"text": enough}, prompts=["a\n"]))
    assert answer.status_code == 202
