"""A store of an earlier release is brought up to this one when the API starts: once, whatever interrupts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from api_rig import TRAIN, Api
from redis import Redis

from service.jobs import calls, schema
from service.jobs.records import key
from service.jobs.schema import SCHEMA_KEY, VERSION, check_schema


def as_of_schema_1(redis: Redis) -> None:
    """Takes away what schema 2 has brought."""
    for name in redis.scan_iter(key("labelled", "*")):
        redis.delete(name)
    redis.delete(key("work"))
    for name in redis.scan_iter(key("job", "job_*"), _type="HASH"):
        redis.hdel(name, "estimate_ms", "bytes")
    for name in redis.scan_iter(key("usage", "*")):
        redis.hdel(name, "bytes")
    redis.set(SCHEMA_KEY, 1)


def told(redis: Redis) -> dict[str, Any]:
    """What schema 2 holds beside schema 1."""
    lists = {name: redis.zrange(name, 0, -1) for name in sorted(redis.scan_iter(key("labelled", "*")))}
    jobs = sorted(redis.scan_iter(key("job", "job_*"), _type="HASH"))
    fields = {
        name: redis.hmget(name, "estimate_ms", "bytes") for name in jobs if not name.endswith(b":checkpoints")
    }
    bytes_of = {name: redis.hget(name, "bytes") for name in sorted(redis.scan_iter(key("usage", "*")))}
    return {"lists": lists, "work": redis.hgetall(key("work")), "fields": fields, "bytes": bytes_of}


@pytest.fixture
def api(tmp_path: Path) -> Any:
    with Api(tmp_path) as running:
        running.submit({**TRAIN, "name": "mine", "metadata": {"team": "a"}})
        worker = running.worker()
        job = worker.claim().job.id
        manifest = {"step": 1, "weights": "w", "optimizer": "o", "state": "s", "bytes": {"weights": 7}}
        calls.run(running.redis, calls.checkpoint(job, worker.token, manifest))
        worker.finish()
        for _ in range(2):
            running.submit({**TRAIN, "metadata": {"team": "b"}})
        running.http.post("/v1/files", files={"file": ("a", b"some text")})
        yield running


def test_old_data_are_brought_up_to_this_release(api: Api) -> None:
    before = told(api.redis)
    as_of_schema_1(api.redis)
    assert told(api.redis) != before
    api.restart()
    after = told(api.redis)
    for fields in after["fields"].values():  # a job without checkpoints now says that it has no bytes
        fields[1] = None if fields[1] == b"0" else fields[1]
    assert after == before
    assert int(api.redis.get(SCHEMA_KEY) or 0) == VERSION
    assert len(api.http.get("/v1/jobs", params={"metadata[team]": "b"}).json()["data"]) == 2
    assert api.redis.hget(key("usage", "local"), "bytes") == b"16"


def test_a_migration_that_is_interrupted_counts_nothing_twice(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends when all is done but the version."""
    work = api.redis.hgetall(key("work"))
    as_of_schema_1(api.redis)

    def stopping(redis: Redis, call: calls.Call[Any]) -> Any:
        calls.run(redis, call)
        if str(call.args[0]).startswith("file_"):
            raise ConnectionError

    monkeypatch.setattr(schema, "BATCH", 1)
    monkeypatch.setattr(schema, "run", stopping)
    with pytest.raises(ConnectionError):
        check_schema(api.redis)
    monkeypatch.undo()
    assert int(api.redis.get(SCHEMA_KEY) or 0) == 1
    check_schema(api.redis)
    assert api.redis.hgetall(key("work")) == work
    assert api.redis.hget(key("usage", "local"), "bytes") == b"16"


def test_of_several_processes_one_migrates(api: Api) -> None:
    as_of_schema_1(api.redis)
    threads = [threading.Thread(target=check_schema, args=(api.redis,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert api.redis.hget(key("usage", "local"), "bytes") == b"16"
