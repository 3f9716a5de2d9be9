"""Blobs through the API: the same promises as in the folder, for whoever has a worker key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from api_rig import Api
from cluster import Cluster, check_log
from hypothesis import given, settings
from hypothesis import strategies as st

from service.blobs import (
    BlobDamagedError,
    BlobError,
    BlobMissingError,
    BlobSpaceError,
    BlobTooLargeError,
    FolderStore,
    HttpStore,
    open_store,
)
from service.settings import Settings

ADMIN = f"key_root_{'a' * 40}"
WORKER = f"key_mill_{'b' * 40}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("guarded")
    keys = folder / "keys"
    keys.write_text(f"{ADMIN}\n{WORKER} worker\n")
    with Api(folder, api_key_file=keys, blob_limit=300_000) as api:
        yield api


@pytest.fixture(scope="module")
def store(guarded: Api) -> HttpStore:
    return HttpStore(guarded.url, WORKER, patience_s=0)


def folder_of(api: Api) -> FolderStore:
    return FolderStore(api.settings.blob_dir)


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 300_000])
def test_what_is_put_is_got(store: HttpStore, guarded: Api, content: bytes) -> None:
    name = store.put(content)
    assert name == hashlib.sha256(content).hexdigest()
    assert store.get(name) == content == folder_of(guarded).get(name)
    assert store.size(name) == len(content)
    assert store.put(content) == name


@given(parts=st.lists(st.binary(max_size=50), max_size=8), start=st.integers(0, 500))
@settings(max_examples=20)
def test_parts_and_ranges(store: HttpStore, parts: list[bytes], start: int) -> None:
    writer = store.writer()
    for part in parts:
        writer.write(part)
    name = writer.commit()
    writer.abort()
    with store.open_range(name, start) as file:
        assert file.read() == b"".join(parts)[start:]


def test_missing_blobs_and_wrong_names(store: HttpStore, guarded: Api) -> None:
    for name in ("0" * 64, "../x", "A" * 64, ""):
        for use in (store.get, store.size, store.open_range):
            with pytest.raises(BlobMissingError):
                use(name)
    with guarded.client(headers={"Authorization": f"Bearer {WORKER}"}) as http:
        for name in ("x", "%2e%2e%2fetc", "A" * 64, "0" * 65):
            assert http.put(f"/v1/blobs/{name}", content=b"x").status_code == 404


def test_bytes_of_another_name_are_refused_and_not_kept(store: HttpStore, guarded: Api) -> None:
    sent = hashlib.sha256(b"sent").hexdigest()
    with guarded.client(headers={"Authorization": f"Bearer {WORKER}"}) as http:
        answer = http.put(f"/v1/blobs/{'1' * 64}", content=b"sent")
    assert (answer.status_code, answer.json()["param"]) == (422, "body")
    for name in ("1" * 64, sent):
        with pytest.raises(BlobMissingError):
            store.get(name)
    assert list(folder_of(guarded).partial.iterdir()) == []


def test_a_blob_damaged_on_its_way_or_on_the_disk_is_not_handed_on(store: HttpStore, guarded: Api) -> None:
    name = store.put(b"precious" * 100)
    path = folder_of(guarded).path(name)
    path.write_bytes(b"different" * 100)
    os.utime(path, (2, 2))
    with pytest.raises((BlobMissingError, BlobDamagedError)):
        store.get(name)
    store.put(b"precious" * 100)
    assert store.get(name) == b"precious" * 100


def test_the_limit_is_kept(store: HttpStore) -> None:
    with pytest.raises(BlobTooLargeError):
        store.put(b"x" * 300_001)
    writer = store.writer(limit=3)
    with pytest.raises(BlobTooLargeError):
        writer.write(b"abcd")
    writer.abort()


def test_nothing_can_be_removed(store: HttpStore, guarded: Api) -> None:
    name = store.put(b"stays")
    with guarded.client(headers={"Authorization": f"Bearer {WORKER}"}) as http:
        assert http.delete(f"/v1/blobs/{name}").status_code == 405
    assert store.get(name) == b"stays"


def test_other_keys_get_nothing_out_of_the_store(guarded: Api) -> None:
    for key in (ADMIN, "", f"key_mill_{'0' * 40}"):
        with pytest.raises(BlobError, match=r"answered 40[13]"):
            HttpStore(guarded.url, key, patience_s=0).put(b"x")


def test_a_full_disk_is_named(store: HttpStore, guarded: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: FolderStore, limit: int | None = None) -> None:
        raise BlobSpaceError("no space left")

    monkeypatch.setattr(FolderStore, "writer", full)
    with pytest.raises(BlobSpaceError):
        store.put(b"x")


class Flaky(httpx.BaseTransport):
    """An API that fails in ways given, then answers with one content."""

    def __init__(self, content: bytes, *failures: int | Exception) -> None:
        self._content = content
        self._failures = list(failures)
        self.asked = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        failure = self._failures.pop(0) if self._failures else 200
        if isinstance(failure, Exception):
            raise failure
        return httpx.Response(failure, content=self._content if failure == 200 else b"")


def store_on(transport: Flaky, **options: float) -> HttpStore:
    store = HttpStore("http://elsewhere", WORKER, **options)
    store._http = httpx.Client(base_url="http://elsewhere", transport=transport)
    return store


def test_a_store_waits_for_its_api() -> None:
    name = hashlib.sha256(b"content").hexdigest()
    flaky = Flaky(b"content", httpx.ConnectError("refused"), 503, 502, httpx.ReadTimeout("silent"))
    assert store_on(flaky).get(name) == b"content"
    assert flaky.asked == 5
    with pytest.raises(BlobError, match="no answer"):
        store_on(Flaky(b"", httpx.ConnectError("refused")), patience_s=0).get(name)
    for status in (400, 401, 403, 500):
        refusing = Flaky(b"", status)
        with pytest.raises(BlobError, match=str(status)):
            store_on(refusing).get(name)
        assert refusing.asked == 1


def test_a_blob_damaged_on_its_way_is_refused() -> None:
    with pytest.raises(BlobDamagedError):
        store_on(Flaky(b"c0ntent")).get(hashlib.sha256(b"content").hexdigest())


def test_another_address_after_a_restart(guarded: Api) -> None:
    name = HttpStore(guarded.url, WORKER).put(b"before")
    guarded.restart()
    assert HttpStore(guarded.url, WORKER).get(name) == b"before"


def test_a_worker_with_nothing_but_redis_and_the_api_does_the_same_work(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.start_toy()
    here = cluster.wait_state(cluster.toy(), "succeeded")
    cluster.stop_processes()
    key_file = tmp_path / "worker_key"
    key_file.write_text(f"{WORKER}\n")
    (tmp_path / "keys").write_text(f"{ADMIN}\n{WORKER} worker\n")
    cluster.environment["GRADMILL_API_KEY_FILE"] = str(tmp_path / "keys")
    url = cluster.start_api()
    elsewhere = tmp_path / "elsewhere"
    cluster.environment |= {
        "GRADMILL_BLOB_URL": url,
        "GRADMILL_WORKER_KEY_FILE": str(key_file),
        "GRADMILL_DATA_DIR": str(elsewhere),
    }
    worker = cluster.start_toy()
    job = cluster.toy(steps=60)
    cluster.wait_step(job, 30)
    os.kill(cluster.horse(worker), 9)
    there = cluster.wait_state(job, "succeeded")
    assert len(there.attempts) == 2
    check_log(cluster.events(job))
    undisturbed = cluster.wait_state(cluster.toy(steps=60), "succeeded")
    assert there.result["value"] == undisturbed.result["value"]
    assert here.result["value"] != there.result["value"]
    assert not elsewhere.exists()


def test_the_settings_choose_the_store(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(WORKER)
    assert isinstance(open_store(Settings(data_dir=tmp_path)), FolderStore)
    assert isinstance(open_store(Settings(blob_url="http://api:8000", worker_key_file=key_file)), HttpStore)
    with pytest.raises(ValueError, match="can't be read"):
        open_store(Settings(blob_url="http://api:8000", worker_key_file=tmp_path / "none"))
