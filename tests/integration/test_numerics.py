"""Which engine computed what: recorded with jobs, attempts and checkpoints, and minded when a job goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from api_rig import TRAIN, Api
from cluster import Cluster

from service.cli.repeat import compare, digest, leaves, shown
from service.client import Client
from service.jobs import calls
from service.jobs.lanes import LANES
from service.specs import KINDS
from service.versions import ENGINE_VERSION, NUMERICS_VERSION
from workers.resume import all_points, starting_points

MANIFEST = {"step": 5, "weights": "w", "optimizer": "o", "state": "s", "bytes": {}}


@pytest.fixture(autouse=True)
def clean(api: Api) -> Iterator[None]:
    yield
    api.redis.flushall()


def claimed_again(api: Api, first: dict[str, Any], **options: Any) -> tuple[str, Any]:
    """A job whose first attempt stored a checkpoint and was lost; the claim of its second."""
    job = api.submit({**TRAIN, **options})["id"]
    worker = api.worker()
    worker.claim()
    calls.run(api.redis, calls.checkpoint(job, worker.token, {**MANIFEST, **first}))
    calls.run(api.redis, calls.release(job, worker.token, "shutdown"))
    return job, worker.claim()


def test_a_job_says_which_engine_it_was_meant_for(api: Api) -> None:
    job = api.submit()
    assert (job["engine_version"], job["numerics_version"]) == (ENGINE_VERSION, NUMERICS_VERSION)
    assert job["mixed_numerics"] is False
    version = api.http.get("/version").json()
    assert (version["version"], version["numerics_version"]) == (ENGINE_VERSION, NUMERICS_VERSION)


def test_a_job_goes_on_from_checkpoints_of_its_own_numerics(api: Api) -> None:
    _, claim = claimed_again(api, {"numerics_version": NUMERICS_VERSION})
    assert [each["step"] for each in starting_points(api.redis, claim.job)] == [5]


@pytest.mark.parametrize("stored", [{"numerics_version": "0"}, {}], ids=["another", "the first, unsaid"])
def test_a_job_does_not_go_on_from_other_numerics_unless_asked_to(api: Api, stored: dict[str, Any]) -> None:
    _, claim = claimed_again(api, stored)
    assert starting_points(api.redis, claim.job) == []
    assert len(all_points(api.redis, claim.job)) == 1
    _, claim = claimed_again(api, stored, resume="any")
    assert [each["step"] for each in starting_points(api.redis, claim.job)] == [5]


def test_a_retry_minds_the_numerics_as_well(api: Api) -> None:
    for numerics, expected in ((NUMERICS_VERSION, [5]), ("0", [])):
        old, _ = claimed_again(api, {"numerics_version": numerics})
        api.http.post(f"/v1/jobs/{old}/cancel")
        token = int(api.http.get(f"/v1/jobs/{old}").json()["attempt"])
        calls.run(api.redis, calls.finish(old, token, "cancelled"))
        api.http.post(f"/v1/jobs/{old}/retry")
        claim = api.worker().claim()
        assert [each["step"] for each in starting_points(api.redis, claim.job)] == expected


def test_a_job_of_mixed_numerics_is_marked(api: Api) -> None:
    job, claim = claimed_again(api, {"numerics_version": "0"}, resume="any")
    assert api.http.get(f"/v1/jobs/{job}").json()["mixed_numerics"] is False
    mixed = {**MANIFEST, "step": 6, "mixed_numerics": True}
    calls.run(api.redis, calls.checkpoint(job, claim.token, mixed))
    assert api.http.get(f"/v1/jobs/{job}").json()["mixed_numerics"] is True


def test_real_attempts_and_checkpoints_carry_the_versions(cluster: Cluster) -> None:
    cluster.start_toy()
    job = cluster.wait_state(cluster.toy(), "succeeded")
    assert job.attempts[0].engine_version == ENGINE_VERSION
    assert job.attempts[0].numerics_version == NUMERICS_VERSION
    manifests = all_points(cluster.redis, job)
    assert {each["numerics_version"] for each in manifests} == {NUMERICS_VERSION}
    assert {each["engine_version"] for each in manifests} == {ENGINE_VERSION}


def test_a_repetition_has_the_stored_spec_and_publishes_nothing(api: Api) -> None:
    old = api.submit({**TRAIN, "spec": {**TRAIN["spec"], "publish_as": "mine"}})
    assert api.http.post(f"/v1/jobs/{old['id']}/repeat").status_code == 409
    worker = api.worker()
    worker.claim()
    worker.finish(result={"weights": "w"})
    answer = api.http.post(f"/v1/jobs/{old['id']}/repeat", headers={"Idempotency-Key": "k"})
    new = answer.json()
    assert (answer.status_code, new["repeat_of"], new["retry_of"]) == (202, old["id"], None)
    assert new["spec"] == {**old["spec"], "publish_as": None}
    again = api.http.post(f"/v1/jobs/{old['id']}/repeat", headers={"Idempotency-Key": "k"}).json()
    assert again["id"] == new["id"]


BIGRAM = {
    "model": {"name": "bigram", "seq_len": 8},
    "corpus": {"text": "to be or not to be " * 40},
    "steps": 30,
}
SPECS = {"train": BIGRAM, "price": KINDS["price"].example, "compile": KINDS["compile"].example}


@pytest.mark.slow
def test_repetitions_of_real_jobs_have_the_same_bits(cluster: Cluster) -> None:
    cluster.environment |= {"GRADMILL_LEASE_S": "10", "GRADMILL_STALL_S": "60"}
    for lane in LANES:
        cluster.start("-m", "workers.lane", lane)
    with Client(cluster.start_api()) as client:
        for kind, spec in SPECS.items():
            old = client.wait(client.submit(kind, spec)["id"])
            assert old["state"] == "succeeded", old["error"]
            new = client.wait(client.repeat(old["id"])["id"])
            assert compare(old, new)["different"] == {}
        model = client.submit("train", {**BIGRAM, "publish_as": "mine"})
        client.wait(model["id"])
        old = client.wait(client.submit("sample", {"model": "mine", "max_tokens": 20, "prompt": "to"})["id"])
        new = client.wait(client.repeat(old["id"])["id"])
        assert compare(old, new)["different"] == {}


def job_with(result: Any) -> Any:
    return {"id": "job", "engine_version": "1", "numerics_version": "1", "result": result}


def test_results_are_compared_without_what_belongs_to_the_run() -> None:
    before = job_with({"weights": "a", "model": "m1", "timings": [1], "choices": [{"text": "x"}]})
    after = job_with({"weights": "a", "model": "m2", "timings": [2], "choices": [{"text": "x"}]})
    assert compare(before, after)["same"] is True
    after["result"]["choices"][0]["text"] = "y"
    compared = compare(before, after)
    assert compared["different"] == {"choices.0.text": ["x", "y"]}
    assert compared["jobs"][0]["digest"] != compared["jobs"][1]["digest"]
    assert "choices.0.text: 'x', now 'y'" in shown(compared)


def test_a_result_of_any_depth_has_a_digest() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert len(digest(deep)) == 64
    assert list(leaves(None)) == [("", None)]
