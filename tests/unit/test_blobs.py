"""The blob store in a folder: durable before visible, named by content, nothing but hashes in paths."""

from __future__ import annotations

import hashlib
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.blobs import (
    BlobDamagedError,
    BlobError,
    BlobMissingError,
    BlobSpaceError,
    BlobTooLargeError,
    FolderStore,
)


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
    with pytest.raises(BlobError, match="can't use"):
        store.check()


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [flip_a_bit, cut_short])
@pytest.mark.parametrize("read", ["get", "open_range"])
def test_a_damaged_blob_is_refused_set_aside_and_healed_by_a_put(
    store: FolderStore, damage: Callable[[Path], None], read: str
) -> None:
    name = store.put(b"precious" * 100)
    with store.open_range(name) as file:
        file.read()
    damage(store.path(name))
    os.utime(store.path(name), (2, 2))
    with pytest.raises(BlobDamagedError, match=name):
        getattr(store, read)(name)
    assert (store.damaged / name).exists()
    with pytest.raises(BlobMissingError):
        getattr(store, read)(name)
    store.put(b"precious" * 100)
    assert store.get(name) == b"precious" * 100


@pytest.mark.parametrize("damage", [flip_a_bit, cut_short])
def test_a_put_does_not_trust_a_file_that_is_there(
    store: FolderStore, damage: Callable[[Path], None]
) -> None:
    name = store.put(b"precious" * 100)
    damage(store.path(name))
    assert store.put(b"precious" * 100) == name
    assert store.get(name) == b"precious" * 100


def test_what_is_damaged_goes_with_the_old_blobs(store: FolderStore) -> None:
    name = store.put(b"precious" * 100)
    flip_a_bit(store.path(name))
    with pytest.raises(BlobDamagedError):
        store.get(name)
    os.utime(store.damaged / name, (1, 1))
    assert list(store.older_than(2)) == []
    assert files(store) == []


@contextmanager
def small_disk(size: int) -> Iterator[None]:
    """No file of this process grows beyond ``size`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [1, 5000, 1_000_000])
def test_a_full_disk_is_named_and_nothing_half_written_stays(store: FolderStore, size: int) -> None:
    kept = store.put(b"k")
    with small_disk(0), pytest.raises(BlobSpaceError):
        store.put(b"x" * size)
    with small_disk(0), pytest.raises(BlobSpaceError):
        store.check()
    assert files(store) == [store.path(kept)]
