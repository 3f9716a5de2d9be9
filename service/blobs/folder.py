"""A blob store in a folder: ``<root>/ab/cdef…``, written aside, synced and renamed.

Disks lose bits: whole reads are checked against the name, and what does not match goes to ``<root>/damaged``,
so that the next ``put`` writes it anew. A part is read of a file that was checked since it last changed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from service.blobs.protocol import (
    BlobDamagedError,
    BlobError,
    BlobMissingError,
    BlobSpaceError,
    BlobTooLargeError,
    check_name,
)

CHECKED_KEPT = 4096
KINDS: dict[int, type[BlobError]] = {
    errno.ENOSPC: BlobSpaceError,
    errno.EDQUOT: BlobSpaceError,
    errno.EFBIG: BlobSpaceError,
    errno.EIO: BlobDamagedError,
}


@contextmanager
def _failing_as_blob_error(path: Path) -> Iterator[None]:
    """What the file system refuses becomes a BlobError that says where and why."""
    try:
        yield
    except OSError as error:
        kind = KINDS.get(error.errno or 0, BlobError)
        raise kind(f"the blob store can't use {path}: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _FolderWriter:
    """Writes to ``<root>/partial/…`` until committed."""

    def __init__(self, store: FolderStore, limit: int | None) -> None:
        self._store = store
        self._limit = limit
        self._written = 0
        self._hash = hashlib.sha256()
        self._path = store.partial / secrets.token_hex(16)
        with _failing_as_blob_error(self._path):
            self._file = open(self._path, "xb")  # noqa: SIM115  (closed by commit or abort)

    def write(self, part: bytes) -> None:
        self._written += len(part)
        if self._limit is not None and self._written > self._limit:
            raise BlobTooLargeError(f"more than {self._limit} bytes")
        self._hash.update(part)
        with _failing_as_blob_error(self._path):
            self._file.write(part)

    def flush(self) -> None:
        """Hands what was written to the file system. BlobError where it can't take it."""
        with _failing_as_blob_error(self._path):
            self._file.flush()

    def commit(self, expected: str | None = None) -> str:
        name = self._hash.hexdigest()
        if expected not in (None, name):
            raise BlobDamagedError(f"blob {expected} came damaged: its content has the name {name}")
        target = self._store.path(name)
        with _failing_as_blob_error(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            if not target.parent.exists():
                target.parent.mkdir(mode=0o700, exist_ok=True)
                _sync_folder(self._store.root)
            os.replace(self._path, target)
            _sync_folder(target.parent)
        return name

    def abort(self) -> None:
        with suppress(OSError):  # on a full disk the last bytes can't be flushed, and nobody wants them
            self._file.close()
        self._path.unlink(missing_ok=True)


class FolderStore:
    """Blobs as files that nobody changes once they can be seen."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.partial = root / "partial"
        self.partial.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.damaged = root / "damaged"
        self._checked: dict[str, tuple[int, int, int]] = {}  # name -> inode, size, time of the last change

    def path(self, name: str) -> Path:
        """Where a blob lies; BlobMissingError if the name is not a sha256."""
        check_name(name)
        return self.root / name[:2] / name[2:]

    def put(self, content: bytes) -> str:
        """Stores bytes durably and returns their name."""
        name = hashlib.sha256(content).hexdigest()
        path = self.path(name)
        try:
            if path.read_bytes() == content:
                os.utime(path)  # young again, so that a collection of old blobs leaves it
                return name
            self._set_aside(name)
        except OSError:  # not there, or not readable: it is written
            pass
        writer = self.writer()
        try:
            writer.write(content)
            return writer.commit()
        finally:
            writer.abort()

    def writer(self, limit: int | None = None) -> _FolderWriter:
        """A writer for content that comes in parts."""
        return _FolderWriter(self, limit)

    def get(self, name: str) -> bytes:
        """The whole content, checked."""
        path = self.path(name)
        with _failing_as_blob_error(path):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                raise BlobMissingError(f"blob {name} is not in the store") from None
        if hashlib.sha256(content).hexdigest() != name:
            raise self._set_aside(name)
        return content

    def size(self, name: str) -> int:
        """The number of bytes."""
        try:
            return self.path(name).stat().st_size
        except FileNotFoundError:
            raise BlobMissingError(f"blob {name} is not in the store") from None

    def open_range(self, name: str, start: int = 0) -> BinaryIO:
        """A readable file positioned at ``start``, whose content was checked since it last changed."""
        path = self.path(name)
        with _failing_as_blob_error(path):
            try:
                file = open(path, "rb")  # noqa: SIM115  (the caller closes it)
            except FileNotFoundError:
                raise BlobMissingError(f"blob {name} is not in the store") from None
            try:
                self._check(name, file)
                file.seek(start)
            except BaseException:
                file.close()
                raise
        return file

    def _check(self, name: str, file: BufferedReader) -> None:
        status = os.fstat(file.fileno())
        now = (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._checked.get(name) == now:
            return
        if hashlib.file_digest(file, "sha256").hexdigest() != name:
            raise self._set_aside(name)
        if len(self._checked) >= CHECKED_KEPT:
            self._checked.clear()
        self._checked[name] = now

    def _set_aside(self, name: str) -> BlobDamagedError:
        """Moves a blob out of the way of whole content; the error to raise."""
        with suppress(OSError):  # on a disk that can't be written it stays, and is refused again
            self.damaged.mkdir(mode=0o700, exist_ok=True)
            os.replace(self.path(name), self.damaged / name)
            os.utime(self.damaged / name)
        return BlobDamagedError(f"blob {name} is damaged: its content is not what was stored")

    def delete(self, name: str, before: float | None = None) -> bool:
        """Removes a blob, or only if it was last put before a time (s); returns whether it did."""
        path = self.path(name)
        try:
            if before is not None and path.stat().st_mtime >= before:
                return False
            path.unlink()
        except FileNotFoundError:
            return False
        return True

    def older_than(self, before: float) -> Iterator[str]:
        """Names of the blobs that were last put before a time; what is half-written or damaged goes."""
        for path in self.root.glob("*/*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    if path.parent in (self.partial, self.damaged):
                        path.unlink()
                    else:
                        yield path.parent.name + path.name

    def usage(self) -> tuple[int, int]:
        """How many blobs there are, and their bytes together."""
        number = total = 0
        for folder in self.root.iterdir():
            if folder in (self.partial, self.damaged):
                continue
            for entry in os.scandir(folder):
                with suppress(FileNotFoundError):
                    total += entry.stat().st_size
                    number += 1
        return number, total

    def check(self) -> None:
        """Raises BlobError unless a byte can be written here."""
        writer = self.writer()
        try:
            writer.write(b"\0")
            writer.flush()
        finally:
            writer.abort()
