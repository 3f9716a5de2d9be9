"""Collecting blobs: what anything refers to stays, however old; the rest goes once it is old."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from api_rig import Api, train_with

from service.api.backend import make_backend
from service.api.collector import collect
from service.api.server import serve
from service.blobs import BlobMissingError, FolderStore
from service.ids import new_id
from service.jobs import calls
from service.jobs.events import store_segment
from service.jobs.schema import SCHEMA_KEY, VERSION, SchemaError, check_schema


def age(api: Api, *names: str) -> None:
    """Makes blobs look as old as 1970."""
    for name in names:
        os.utime(FolderStore(api.settings.blob_dir).path(name), (1, 1))


def collected(api: Api) -> int:
    async def run() -> int:
        backend = make_backend(api.settings)
        try:
            return await collect(backend)
        finally:
            await backend.close()

    return asyncio.run(run())


def is_stored(api: Api, name: str) -> bool:
    try:
        api.blobs.size(name)
    except BlobMissingError:
        return False
    return True


def test_only_old_blobs_without_a_reference_go(api: Api) -> None:
    job = api.submit(train_with(corpus={"text": "a text of its own " * 10}))
    worker = api.worker()
    worker.claim()
    put = api.blobs.put
    manifest = {"step": 1, "weights": put(b"w"), "optimizer": put(b"o"), "state": put(b"s"), "bytes": {}}
    segment = store_segment(api.redis, api.blobs, job["id"], 0)
    assert segment is not None
    calls.run(api.redis, calls.checkpoint(job["id"], worker.token, manifest, segment))
    model = new_id("model")
    record = {"id": model, "weights": put(b"model"), "config": {"name": "bigram", "vocab_size": 3}}
    worker.finish(result={"weights": put(b"result")}, model=calls.Model(model, record))
    file = api.http.post("/v1/files", files={"file": ("a", b"uploaded")}).json()
    kept = {job["spec"]["corpus"]["blob"], segment.blob, put(b"model"), put(b"result"), file["sha256"]}
    kept |= {manifest[part] for part in ("weights", "optimizer", "state")}  # type: ignore[misc]
    old, young = put(b"nobody's, old"), put(b"nobody's, young")
    age(api, old, *kept)
    half = FolderStore(api.settings.blob_dir).partial / "half"
    half.write_bytes(b"left by a killed writer")
    os.utime(half, (1, 1))
    assert collected(api) == 1
    assert all(is_stored(api, name) for name in kept)
    assert is_stored(api, young)
    assert not is_stored(api, old)
    assert not half.exists()


def test_what_was_put_again_meanwhile_stays(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    name = store.put(b"x")
    os.utime(store.path(name), (1, 1))
    assert list(store.older_than(100)) == [name]
    store.put(b"x")
    assert store.delete(name, before=100) is False
    assert store.get(name) == b"x"


def test_a_store_of_a_newer_release_is_refused(api: Api) -> None:
    check_schema(api.redis)
    assert int(api.redis.get(SCHEMA_KEY) or 0) == VERSION
    api.redis.set(SCHEMA_KEY, VERSION + 1)
    with pytest.raises(SchemaError, match="newer release"):
        check_schema(api.redis)
    with pytest.raises(SystemExit):
        serve(api.settings)
    api.redis.delete(SCHEMA_KEY)
