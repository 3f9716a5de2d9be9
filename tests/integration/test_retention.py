"""What is old goes, and nothing that a live job needs goes with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from api_rig import Api, train_with

from service.api import collector
from service.api.backend import Backend, make_backend
from service.api.collector import collect
from service.api.retention import forget_old
from service.blobs import FolderStore
from service.jobs import calls
from service.jobs.records import key

DAY_S = 86_400.0


@pytest.fixture(autouse=True)
def clean(api: Api) -> Iterator[None]:
    yield
    api.redis.flushall()


def with_backend(api: Api, work: Callable[[Backend], Coroutine[Any, Any, int]]) -> int:
    async def run() -> int:
        backend = make_backend(api.settings)
        try:
            return await work(backend)
        finally:
            await backend.close()

    return asyncio.run(run())


def forget(api: Api) -> int:
    return with_backend(api, lambda backend: forget_old(backend, DAY_S))


def ended(api: Api, outcome: str = "succeeded", age_s: float = 2 * DAY_S) -> str:
    """A job that ended so long ago."""
    job: str = api.submit()["id"]
    worker = api.worker()
    assert worker.claim().job.id == job
    worker.finish(outcome, code="c", message="m")
    at = int(api.redis.hget(key("job", job), "ended_at") or 0)
    api.redis.hset(key("job", job), "ended_at", round(at - 1000 * age_s))
    return job


def there(api: Api, job: str) -> bool:
    return api.http.get(f"/v1/jobs/{job}").status_code == 200


def test_jobs_that_ended_long_ago_go_and_younger_ones_stay(api: Api) -> None:
    old = [ended(api), ended(api, "failed")]
    young = ended(api, age_s=DAY_S / 2)
    assert forget(api) == 2
    assert not any(there(api, job) for job in old)
    assert there(api, young)
    assert [job["id"] for job in api.http.get("/v1/jobs").json()["data"]] == [young]
    assert forget(api) == 0


def test_a_live_job_stays_however_old(api: Api) -> None:
    queued, paused, running = (api.submit()["id"] for _ in range(3))
    api.http.post(f"/v1/jobs/{queued}/pause")
    api.worker().claim()
    for job in (queued, paused, running):
        api.redis.hset(key("job", job), "created_at", 1)
    assert forget(api) == 0
    assert all(there(api, job) for job in (queued, paused, running))


def test_what_a_live_job_retries_stays_with_all_that_it_retries(api: Api) -> None:
    first = ended(api, "failed")
    second = api.http.post(f"/v1/jobs/{first}/retry").json()["id"]
    worker = api.worker()
    worker.claim()
    worker.finish("failed", code="c", message="m")
    api.redis.hset(key("job", second), "ended_at", 1)
    third = api.http.post(f"/v1/jobs/{second}/retry").json()["id"]
    assert forget(api) == 0
    api.http.post(f"/v1/jobs/{third}/cancel")
    assert forget(api) == 2
    assert there(api, third)


def test_more_jobs_than_one_page_go(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.api.retention.PAGE", 2)
    for _ in range(5):
        ended(api)
    assert forget(api) == 5


def test_the_blobs_of_a_live_job_survive_a_reference_that_moves(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the collector reads, a job takes a file, which is deleted: neither place had it when read."""
    file = api.http.post("/v1/files", files={"file": ("a", b"a text to train on " * 20)}).json()
    os.utime(FolderStore(api.settings.blob_dir).path(file["sha256"]), (1, 1))
    read = collector._values
    moved: list[str] = []

    async def moving(redis: Any) -> Any:
        async for value in read(redis):
            yield value
            if not moved:
                job = await asyncio.to_thread(api.submit, train_with(corpus={"file": file["id"]}))
                moved.append(job["id"])
                await asyncio.to_thread(api.http.delete, f"/v1/files/{file['id']}")

    api.submit()  # something to read before
    monkeypatch.setattr(collector, "_values", moving)
    with_backend(api, collect)
    assert moved
    assert api.blobs.get(file["sha256"])


def test_the_blobs_of_a_forgotten_job_go(api: Api) -> None:
    job = api.submit()["id"]
    worker = api.worker()
    worker.claim()
    blob = api.blobs.put(b"weights of a job that is forgotten")
    manifest = {"step": 1, "weights": blob, "optimizer": blob, "state": blob, "bytes": {}}
    calls.run(api.redis, calls.checkpoint(job, worker.token, manifest))
    worker.finish()
    os.utime(FolderStore(api.settings.blob_dir).path(blob), (1, 1))
    with_backend(api, collect)
    assert api.blobs.get(blob)
    api.redis.hset(key("job", job), "ended_at", 1)
    assert forget(api) == 1
    with_backend(api, collect)
    assert not FolderStore(api.settings.blob_dir).path(blob).exists()
