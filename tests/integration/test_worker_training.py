"""Real training jobs through the whole system: what they say and leave behind, and that interrupting them
changes no bit of the result."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import LEASE_S, Cluster, check_log, last_step, steps_by_attempt, wait_for

from service.client import Client, RefusedError
from service.embedded import EmbeddedServer
from service.jobs import calls
from service.jobs.lanes import BATCH, QUICK
from service.jobs.listing import Wanted, list_jobs
from workers.resume import starting_points

TEXT = "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer\n" * 20
SPEC = {
    "model": {"name": "bigram", "seq_len": 8},
    "corpus": {"text": TEXT},
    "steps": 120,
    "batch": 4,
    "lr": 0.05,
    "seed": 3,
    "eval_every": 40,
    "sample_every": 60,
    "sample_tokens": 20,
    "prompts": ["To ", "\n"],
    "checkpoint_every_s": 0.05,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("training")


@pytest.fixture(scope="module")
def system(data: Path) -> Iterator[Cluster]:
    """API and quick worker; tests start batch workers of their own."""
    with EmbeddedServer(data) as server, Cluster(server.url, data) as cluster:
        cluster.environment |= {"GRADMILL_CC": "none"}  # the tiny model needs no compiler, nor its start-up
        cluster.environment["GRADMILL_URL"] = cluster.start_api()
        cluster.start("-m", "workers.lane", QUICK)
        yield cluster


@pytest.fixture
def client(system: Cluster) -> Iterator[Client]:
    with Client(system.environment["GRADMILL_URL"]) as client:
        yield client


@pytest.fixture
def batch(system: Cluster) -> Iterator[Any]:
    """Starts batch workers; none is left at the end."""
    started = []

    def start() -> Any:
        started.append(system.start("-m", "workers.lane", BATCH))
        return started[-1]

    yield start
    for job in calls.run(system.redis, list_jobs("*", Wanted(["train"], ["queued", "running"]))):
        calls.run(system.redis, calls.cancel(job.id))  # what a failed test left
    for process in started:
        if process.poll() is None:
            process.terminate()
        process.wait(15)
        system.processes.remove(process)


@pytest.fixture(scope="module")
def uninterrupted(system: Cluster) -> dict[str, Any]:
    """The result of ``SPEC`` without any interruption."""
    worker = system.start("-m", "workers.lane", BATCH)
    with Client(system.environment["GRADMILL_URL"]) as client:
        job = client.wait(client.submit("train", {**SPEC, "publish_as": "plain"})["id"], timeout_s=60)
        worker.terminate()
        worker.wait(15)
        system.processes.remove(worker)
        assert job["state"] == "succeeded", job["error"]
        return {"job": job, "result": job["result"], "events": system.events(job["id"])}


def test_a_training_job_says_all_it_should(uninterrupted: dict[str, Any], client: Client) -> None:
    job, events = uninterrupted["job"], uninterrupted["events"]
    check_log(events)
    assert steps_by_attempt(events)[1] == list(range(121))
    series = client.metrics(job["id"], ["loss", "val_loss", "lr", "tokens_per_s", "grad_norm"])
    assert series["loss"]["steps"] == list(range(1, 121))
    assert series["val_loss"]["steps"] == [0, 40, 80, 120]
    assert series["val_loss"]["values"][-1] < series["val_loss"]["values"][0]
    assert all(rate > 0 for rate in series["tokens_per_s"]["values"])
    samples = [event["data"] for event in events if event["type"] == "sample"]
    assert [(each["step"], each["prompt"]) for each in samples] == [
        (step, prompt)
        for step in (0, 60, 120)
        for prompt in SPEC["prompts"]  # type: ignore[attr-defined]
    ]
    assert all(len(each["text"]) == 20 for each in samples)
    assert uninterrupted["result"]["val_loss"] == series["val_loss"]["values"][-1]
    assert job["progress"]["step"] == 120


def test_checkpoints_are_kept_as_promised(
    uninterrupted: dict[str, Any], client: Client, system: Cluster
) -> None:
    kept = {each["step"]: each for each in client.checkpoints(uninterrupted["job"]["id"])}
    assert {0, 60, 120} <= set(kept)
    assert len([each for each in kept.values() if each.get("optimizer")]) <= 3
    assert kept[120]["weights"] == uninterrupted["result"]["weights"]
    for each in kept.values():
        assert system.blobs.size(each["weights"]) == each["bytes"]["weights"]


def test_the_published_model_answers(uninterrupted: dict[str, Any], client: Client) -> None:
    model = next(each for each in client.models() if each["alias"] == "plain")
    assert model["id"] == uninterrupted["result"]["model"]
    whole = client.complete("plain", "To ", max_tokens=30, seed=5, logprobs=0)
    choice = whole["choices"][0]
    assert len(choice["text"]) == 30
    assert choice["finish_reason"] == "length"
    assert all(logprob <= 0 for logprob in choice["logprobs"]["token_logprobs"])
    streamed = "".join(client.stream_completion(model["id"], "To ", max_tokens=30, seed=5))
    assert streamed == choice["text"]
    other = client.complete("plain", "To ", max_tokens=30, seed=6)["choices"][0]["text"]
    assert other != choice["text"]
    at_step = f"{uninterrupted['job']['id']}@120"
    assert client.complete(at_step, "To ", max_tokens=30, seed=5)["choices"][0]["text"] == choice["text"]


def test_a_completion_stops_at_its_stop_text(uninterrupted: dict[str, Any], client: Client) -> None:
    text = client.complete("plain", "To ", max_tokens=60, seed=5)["choices"][0]["text"]
    stop = text[10:12]
    short = client.complete("plain", "To ", max_tokens=60, seed=5, stop=stop)["choices"][0]
    assert short["text"] == text[: text.index(stop)]
    assert short["finish_reason"] == "stop"


def test_a_prompt_the_model_cannot_read_is_named(uninterrupted: dict[str, Any], client: Client) -> None:
    checkpoint = f"{uninterrupted['job']['id']}@120"
    for model, code in (("plain", "invalid-field"), (checkpoint, "invalid-prompt")):
        with pytest.raises(RefusedError, match="€") as caught:
            client.complete(model, "€", max_tokens=3)
        assert (caught.value.code, caught.value.param) == (code, "prompt")
        assert caught.value.status < 500


@pytest.mark.parametrize("victim", ["horse", "worker"])
def test_killed_anywhere_the_result_has_the_same_bits(
    system: Cluster, client: Client, batch: Any, uninterrupted: dict[str, Any], victim: str
) -> None:
    worker = batch()
    job_id = client.submit("train", SPEC)["id"]
    wait_for("a checkpoint past step 5", lambda: any(c["step"] > 5 for c in client.checkpoints(job_id)))
    pid = system.horse(worker) if victim == "horse" else worker.pid
    before = [event for event in system.events(job_id) if event["type"] == "checkpoint"][-1]["data"]["step"]
    os.kill(pid, signal.SIGKILL)
    killed_at = time.monotonic()
    if victim == "worker":
        batch()
    wait_for("a second attempt speaks", lambda: 2 in steps_by_attempt(system.events(job_id)), 4 * LEASE_S)
    assert time.monotonic() - killed_at < 4 * LEASE_S
    job = client.wait(job_id, timeout_s=60)
    assert job["state"] == "succeeded"
    events = system.events(job_id)
    check_log(events)
    assert steps_by_attempt(events)[2][0] > before > 0
    assert job["result"]["weights"] == uninterrupted["result"]["weights"]
    assert job["result"]["val_loss"] == uninterrupted["result"]["val_loss"]
    assert merged_losses(events) == merged_losses(uninterrupted["events"])


def test_released_by_sigterm_it_goes_on_at_the_same_step(
    system: Cluster, client: Client, batch: Any, uninterrupted: dict[str, Any]
) -> None:
    worker = batch()
    job_id = client.submit("train", {**SPEC, "checkpoint_every_s": 3600})["id"]
    system.wait_step(job_id, 7)
    worker.terminate()
    assert worker.wait(10) == 0
    reached = last_step(system.events(job_id))
    batch()
    job = client.wait(job_id, timeout_s=60)
    events = system.events(job_id)
    check_log(events)
    assert steps_by_attempt(events)[2][0] == reached + 1
    assert job["failures"] == 0
    assert job["result"]["weights"] == uninterrupted["result"]["weights"]


def test_a_retry_goes_on_from_the_last_checkpoint(
    client: Client, system: Cluster, batch: Any, uninterrupted: dict[str, Any]
) -> None:
    batch()
    old = client.submit("train", {**SPEC, "checkpoint_every_s": 3600})["id"]
    system.wait_step(old, 7)
    client.cancel(old)
    assert client.wait(old, timeout_s=20)["state"] == "cancelled"
    reached = last_step(system.events(old))
    job = client.wait(client.retry(old)["id"], timeout_s=60)
    assert job["retry_of"] == old
    assert steps_by_attempt(system.events(job["id"]))[1][0] == reached + 1
    assert job["result"]["weights"] == uninterrupted["result"]["weights"]


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("survivors", [1, 0])
def test_damaged_checkpoints_are_passed_over(
    system: Cluster, client: Client, batch: Any, uninterrupted: dict[str, Any], survivors: int
) -> None:
    """One is flipped, one is missing: the training goes on from an older one, else anew, to the same bits."""
    worker = batch()
    spec = {**SPEC, "seed": 70 + survivors, "sample_every": 0}
    job_id = client.submit("train", spec)["id"]
    wait_for("two checkpoints", lambda: len(starting_points(system.redis, system.job(job_id))) >= 2)
    worker.terminate()
    assert worker.wait(15) == 0
    whole = starting_points(system.redis, system.job(job_id))
    bad = whole[: len(whole) - survivors]
    damage(system.blobs.path(bad[0]["optimizer"]))
    for each in bad[1:]:
        system.blobs.delete(each["state"])
    batch()
    job = client.wait(job_id, timeout_s=60)
    assert (job["state"], job["failures"], len(job["attempts"])) == ("succeeded", 0, 2)
    events = system.events(job_id)
    check_log(events)
    warned = [event["data"]["message"] for event in events if event["data"].get("level") == "warning"]
    assert f"the checkpoint of step {bad[0]['step']} can't be used" in warned[0]
    assert (warned[-1] == "no checkpoint can be used; the training begins anew") == (survivors == 0)
    first = steps_by_attempt(events)[2][0]
    assert first == (whole[-1]["step"] + 1 if survivors else 0)
    again = client.wait(client.submit("train", spec)["id"], timeout_s=60)
    assert job["result"]["weights"] == again["result"]["weights"]


def test_a_damaged_model_is_not_sampled_from(client: Client, system: Cluster, batch: Any) -> None:
    batch()
    spec = {**SPEC, "seed": 77, "steps": 20, "publish_as": "brittle"}
    job = client.wait(client.submit("train", spec)["id"], timeout_s=60)
    damage(system.blobs.path(job["result"]["weights"]))
    with pytest.raises(RefusedError) as caught:
        client.complete("brittle", "To ", max_tokens=3)
    assert caught.value.code == "checkpoint-damaged"


def merged_losses(events: list[dict[str, Any]]) -> dict[int, float]:
    """The last loss said of each step."""
    losses = {}
    for event in events:
        if event["type"] == "metric":
            data = event["data"]
            column = data["values"].get("loss", [None] * len(data["steps"]))
            losses |= {
                step: loss for step, loss in zip(data["steps"], column, strict=True) if loss is not None
            }
    return losses


def test_a_cancelled_training_keeps_its_last_checkpoint(system: Cluster, client: Client, batch: Any) -> None:
    batch()
    job_id = client.submit("train", {**SPEC, "steps": 100_000, "checkpoint_every_s": 3600})["id"]
    system.wait_step(job_id, 5)
    assert client.cancel(job_id)["state"] == "cancelling"
    job = client.wait(job_id, timeout_s=20)
    assert job["state"] == "cancelled"
    assert client.checkpoints(job_id)[-1]["step"] >= 5


def test_a_loss_that_is_not_finite_ends_the_job_and_says_so(client: Client, batch: Any) -> None:
    batch()
    growing = {"optimizer": "sgd", "lr": 100.0, "weight_decay": 10.0}  # a step multiplies weights by -999
    job = client.wait(client.submit("train", {**SPEC, **growing})["id"], timeout_s=60)
    assert job["state"] == "failed"
    assert job["error"]["code"] == "non-finite-loss"
    assert "lower lr" in job["error"]["message"]
    events = list(client.past_events(job["id"]))
    check_log(events)  # type: ignore[arg-type]
    assert any("loss" in event["data"].get("nonfinite", []) for event in events if event["type"] == "metric")


def test_a_text_that_cannot_be_trained_on_is_named(system: Cluster, batch: Any) -> None:
    """The API checks texts before; a blob that has gone since is found by the worker."""
    batch()
    spec = {**SPEC, "corpus": {"blob": "0" * 64}, "publish_as": None, "prompts": ["\n"]}
    job = system.wait_state(system.submit("train", spec), "failed")
    assert job.error["code"] == "invalid-dataset"
    assert len(job.attempts) == 1


def test_the_parent_of_a_running_job_has_loaded_no_native_code(
    system: Cluster, client: Client, batch: Any
) -> None:
    worker = batch()
    job_id = client.submit("train", {**SPEC, "steps": 100_000})["id"]
    system.wait_step(job_id, 2)
    parent, horse = (Path(f"/proc/{pid}/maps").read_text() for pid in (worker.pid, system.horse(worker)))
    calls.run(system.redis, calls.cancel(job_id))
    assert "_cffi_backend" in horse
    assert "_cffi_backend" not in parent
    client.wait(job_id, timeout_s=20)


def test_events_survive_in_segments(uninterrupted: dict[str, Any], client: Client) -> None:
    events = list(client.past_events(uninterrupted["job"]["id"], limit=7))
    assert json.dumps(events) == json.dumps(uninterrupted["events"])
