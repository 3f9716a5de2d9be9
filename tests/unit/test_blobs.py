"""The blob store in a folder: durable before visible, named by content, nothing but hashes in paths."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.blobs import BlobError, BlobMissingError, BlobTooLargeError, FolderStore


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "blobs")


def files(store: FolderStore) -> list[Path]:
    return [path for path in store.root.rglob("*") if path.is_file()]


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 100_000])
def test_what_is_put_is_got(store: FolderStore, content: bytes) -> None:
    name = store.put(content)
    assert name == hashlib.sha256(content).hexdigest()
    assert store.get(name) == content
    assert store.size(name) == len(content)
    assert store.put(content) == name
    assert len(files(store)) == 1


@given(parts=st.lists(st.binary(max_size=50), max_size=8), start=st.integers(0, 500))
def test_parts_and_ranges(tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], start: int) -> None:
    store = FolderStore(tmp_path_factory.getbasetemp() / "parts")
    writer = store.writer()
    for part in parts:
        writer.write(part)
    name = writer.commit()
    whole = b"".join(parts)
    with store.open_range(name, start) as file:
        assert file.read() == whole[start:]


def test_nothing_is_seen_before_commit_nor_after_abort(store: FolderStore) -> None:
    writer = store.writer()
    writer.write(b"half")
    name = hashlib.sha256(b"half").hexdigest()
    with pytest.raises(BlobMissingError):
        store.get(name)
    writer.abort()
    assert files(store) == []
    writer.abort()


def test_abort_after_commit_keeps_the_blob(store: FolderStore) -> None:
    writer = store.writer()
    writer.write(b"whole")
    name = writer.commit()
    writer.abort()
    assert store.get(name) == b"whole"


def test_the_limit_is_kept(store: FolderStore) -> None:
    writer = store.writer(limit=3)
    writer.write(b"abc")
    with pytest.raises(BlobTooLargeError):
        writer.write(b"d")
    writer.abort()
    assert files(store) == []


def test_content_is_synced_before_it_is_named(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    sync, rename = os.fsync, os.replace

    def noted_sync(descriptor: int) -> None:
        order.append("sync folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "sync file")
        sync(descriptor)

    def noted_rename(source: Path, target: Path) -> None:
        order.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_rename)
    store.put(b"durable")
    assert [step for step in order if step != "sync folder"] == ["sync file", "rename"]
    assert order[-1] == "sync folder"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        "../../etc/passwd",
        "A" * 64,
        "0" * 63,
        "0" * 65,
        "0" * 64 + "\n",
        "..",
        "/" + "0" * 63,
        "0" * 32 + "/" * 32,
    ],
)
def test_only_hashes_become_paths(store: FolderStore, name: str) -> None:
    for use in (store.get, store.size, store.open_range, store.delete):
        with pytest.raises(BlobMissingError):
            use(name)


def test_deleting(store: FolderStore) -> None:
    name = store.put(b"x")
    assert store.delete(name) is True
    assert store.delete(name) is False
    with pytest.raises(BlobMissingError):
        store.get(name)


def test_many_writers_of_one_content(store: FolderStore) -> None:
    contents = [b"%d" % (i % 3) * 10_000 for i in range(24)]
    threads = [threading.Thread(target=store.put, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(files(store)) == 3
    assert {store.get(hashlib.sha256(content).hexdigest()) for content in contents} == set(contents)


def test_a_put_makes_an_old_blob_young(store: FolderStore) -> None:
    name = store.put(b"again")
    os.utime(store.path(name), (1, 1))
    store.put(b"again")
    assert store.path(name).stat().st_mtime > 1


def test_blobs_are_private(store: FolderStore) -> None:
    name = store.put(b"secret")
    assert store.path(name).parent.stat().st_mode & 0o077 == 0


def test_a_store_that_cannot_be_written_says_so(store: FolderStore) -> None:
    store.check()
    store.partial.rmdir()
    with pytest.raises(BlobError, match="can't be written"):
        store.check()
