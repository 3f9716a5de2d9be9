"""The client against the real API: every operation can be asked for, and says what the API says."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_rig import SPEC, TEXT, Api, FakeWorker

from service.client import Client, NotFoundError, RefusedError
from service.ids import new_id
from service.jobs import calls
from service.jobs.lanes import QUICK
from service.specs import KINDS

BY_OTHERS = {  # operations that no method of the client is for
    ("get", "/metrics"),
    ("get", "/healthz"),
    ("post", "/v1/compile"),  # the same as submit
}


class Recorder:
    """A client of which every request is remembered."""

    def __init__(self, api: Api) -> None:
        self.requests: list[tuple[str, str]] = []
        self.client = Client(api.url, patience_s=2)
        self.client._http.event_hooks = {"request": [self._record]}

    def _record(self, request: httpx.Request) -> None:
        self.requests.append((request.method.lower(), request.url.path))

    def operations(self, document: dict[str, Any]) -> set[tuple[str, str]]:
        """The operations of the API that were asked for."""
        return {
            (method, path)
            for path, methods in document["paths"].items()
            for method in methods
            for called, address in self.requests
            if called == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), address)
        }


@pytest.fixture(scope="module")
def recorder(api: Api) -> Iterator[Recorder]:
    recorder = Recorder(api)
    with recorder.client:
        yield recorder


@pytest.fixture
def client(api: Api, recorder: Recorder) -> Client:
    api.redis.flushall()
    return recorder.client


def running(api: Api, client: Client, **options: Any) -> FakeWorker:
    client.submit("train", SPEC, **options)
    worker = api.worker()
    worker.claim()
    return worker


def downloaded(write: Any, *names: Any) -> bytes:
    target = io.BytesIO()
    assert write(*names, target) == len(target.getvalue())
    return target.getvalue()


def test_jobs_are_submitted_listed_and_changed(api: Api, client: Client) -> None:
    assert client.estimate("train", SPEC)["estimate"]["seconds"] > 0
    one = client.submit("train", SPEC, name="one", metadata={"team": "blue"}, idempotency_key="k")
    assert client.submit("train", SPEC, name="one", metadata={"team": "blue"}, idempotency_key="k") == one
    two = client.submit("train", SPEC, priority=5, wait_s=0)
    assert client.get(two["id"])["queue_position"] == 1
    assert client.get(one["id"], wait_s=1)["state"] == "queued"
    assert [job["id"] for job in client.list(name="one", metadata={"team": "blue"})["data"]] == [one["id"]]
    created = datetime.fromisoformat(two["created_at"])
    assert client.list(created_after=created)["data"] == []
    assert client.list(created_before=created + timedelta(seconds=1), state="paused")["data"] == []
    assert [job["id"] for job in client.jobs(limit=1, order="asc")] == [one["id"], two["id"]]
    assert client.pause(one["id"])["state"] == "paused"
    assert client.resume(one["id"])["state"] == "queued"
    assert client.cancel(one["id"])["state"] == "cancelled"
    assert client.retry(one["id"])["retry_of"] == one["id"]
    client.delete(one["id"])
    with pytest.raises(NotFoundError):
        client.get(one["id"])
    with pytest.raises(RefusedError) as caught:
        client.delete(two["id"])
    assert caught.value.status == 409
    assert sum(queue["queued"] for queue in client.queues()) == 2


def test_a_price_needs_a_worker(client: Client) -> None:
    with pytest.raises(RefusedError, match="worker"):
        client.price(KINDS["price"].example["contract"], wait_s=5)


def test_what_a_job_says_and_leaves_behind_is_read(api: Api, client: Client) -> None:
    worker = running(api, client)
    worker.say(("log", {"level": "info", "message": "hello"}))
    worker.loss((1, 2.0), (2, 1.0))
    manifest = {"step": 2, "weights": api.blobs.put(b"weights"), "optimizer": "o", "state": "s", "bytes": {}}
    calls.run(api.redis, calls.checkpoint(worker.job, worker.token, manifest))
    assert client.metrics(worker.job, ["loss"], points=10)["loss"] == {"steps": [1, 2], "values": [2.0, 1.0]}
    text = client.logs(worker.job)
    assert b"hello" in text
    assert client.logs(worker.job, start=len(text)) == b""
    assert client.logs(worker.job, start=-7) == b"step 2\n"
    (checkpoint,) = client.checkpoints(worker.job)
    assert downloaded(client.download_checkpoint, worker.job, checkpoint["step"]) == b"weights"
    blob = api.blobs.put(b"drawing")
    worker.finish(
        result={"artifacts": [{"name": "a.svg", "type": "image/svg+xml", "bytes": 7, "blob": blob}]}
    )
    (artifact,) = client.artifacts(worker.job)
    assert downloaded(client.download_artifact, worker.job, artifact["id"]) == b"drawing"
    assert client.repeat(worker.job)["spec"] == client.get(worker.job)["spec"]


def test_several_jobs_are_followed_over_one_connection(api: Api, client: Client) -> None:
    one, two = running(api, client), running(api, client)
    one.loss((1, 1.0))
    two.say(("progress", {"step": 1, "steps": 2}))
    for worker in (one, two):
        worker.finish()
    seen = list(client.follow([one.job, two.job], timeout_s=30))
    for job in (one.job, two.job):
        assert [event["seq"] for name, event in seen if name == job] == [1, 2, 3, 4]
        assert list(client.past_events(job)) == list(client.events(job))
    metrics = client.follow([one.job, two.job], types=["metric"], timeout_s=30)
    assert [(job, event["type"]) for job, event in metrics] == [(one.job, "metric")]
    assert client.wait(one.job, timeout_s=5)["state"] == "succeeded"


def test_changes_of_all_jobs_are_followed_across_a_restart(api: Api, client: Client) -> None:
    changes = client.changes()
    assert next(changes) is None
    first = client.submit("train", SPEC)["id"]
    assert (next(changes) or {})["job"] == first
    client.cancel(first)
    assert (next(changes) or {})["state"] == "cancelled"
    changes.close()  # type: ignore[attr-defined]


def test_files_models_and_aliases(api: Api, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    file = client.upload(path)
    assert [each["id"] for each in client.files()] == [file["id"]]
    assert client.file(file["id"]) == file
    assert downloaded(client.download_file, file["id"]).decode() == TEXT
    client.delete_file(file["id"])
    assert list(client.files()) == []
    worker = running(api, client)
    model = new_id("model")
    record = {"id": model, "alias": "bard", "weights": api.blobs.put(b"weights"), "owner": "local"}
    worker.finish(model=calls.Model(model, {**record, "config": {"name": "bigram", "vocab_size": 3}}, "bard"))
    client.set_alias("poet", model)
    assert client.aliases() == {"bard": model, "poet": model}
    assert client.model("poet")["id"] == client.models()[0]["id"] == model
    assert downloaded(client.download_model, "poet") == b"weights"
    client.delete_alias("poet")
    with pytest.raises(RefusedError, match="worker"):
        client.complete("bard", "x")
    client.delete_model(model)
    assert client.aliases() == {}


def test_the_service_and_its_keys(api: Api, client: Client) -> None:
    api.worker(QUICK).live()
    assert [worker["lane"] for worker in client.workers()] == [QUICK]
    assert client.ready()["workers"][QUICK] == 1
    assert client.version()
    admin = client.create_key(name="admin", scopes=["admin"])
    with Client(api.url, admin["secret"]) as other:
        made = other.create_key(name="ann", scopes=["read"])
        assert [key["id"] for key in other.api_keys()] == [made["id"], admin["id"]]
        other.revoke_key(made["id"])
        assert [key["id"] for key in other.api_keys()] == [admin["id"]]
    api.redis.flushall()


def test_every_operation_has_a_method(api: Api, recorder: Recorder) -> None:
    """The last of the module: what the tests above asked for."""
    document = api.http.get("/openapi.json").json()
    known = {(method, path) for path, methods in document["paths"].items() for method in methods}
    others = {(method, path) for method, path in known if path.startswith(("/v1/keys", "/v1/blobs"))}
    assert known - others - BY_OTHERS - recorder.operations(document) == set()
