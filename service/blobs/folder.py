"""A blob store in a folder: ``<root>/ab/cdef…``, written aside, synced and renamed."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from service.blobs.protocol import BlobError, BlobMissingError, BlobTooLargeError, check_name


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
        self._file = open(self._path, "xb")  # noqa: SIM115  (closed by commit or abort)

    def write(self, part: bytes) -> None:
        self._written += len(part)
        if self._limit is not None and self._written > self._limit:
            raise BlobTooLargeError(f"more than {self._limit} bytes")
        self._hash.update(part)
        self._file.write(part)

    def commit(self) -> str:
        name = self._hash.hexdigest()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        target = self._store.path(name)
        if not target.parent.exists():
            target.parent.mkdir(mode=0o700, exist_ok=True)
            _sync_folder(self._store.root)
        os.replace(self._path, target)
        _sync_folder(target.parent)
        return name

    def abort(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


class FolderStore:
    """Blobs as files that nobody changes once they can be seen."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.partial = root / "partial"
        self.partial.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """Where a blob lies; BlobMissingError if the name is not a sha256."""
        check_name(name)
        return self.root / name[:2] / name[2:]

    def put(self, content: bytes) -> str:
        """Stores bytes durably and returns their name."""
        name = hashlib.sha256(content).hexdigest()
        try:
            os.utime(self.path(name))  # young again, so that a collection of old blobs leaves it
            return name
        except FileNotFoundError:
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
        """The whole content."""
        with self.open_range(name) as file:
            return file.read()

    def size(self, name: str) -> int:
        """The number of bytes."""
        try:
            return self.path(name).stat().st_size
        except FileNotFoundError:
            raise BlobMissingError(f"blob {name} is not in the store") from None

    def open_range(self, name: str, start: int = 0) -> BinaryIO:
        """A readable file positioned at ``start``."""
        try:
            file = open(self.path(name), "rb")  # noqa: SIM115  (the caller closes it)
        except FileNotFoundError:
            raise BlobMissingError(f"blob {name} is not in the store") from None
        file.seek(start)
        return file

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
        """Names of the blobs that were last put before a time; what writers left half-written is removed."""
        for path in self.root.glob("*/*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    if path.parent == self.partial:
                        path.unlink()
                    else:
                        yield path.parent.name + path.name

    def check(self) -> None:
        """Raises BlobError unless a file can be created here."""
        try:
            self.writer().abort()
        except OSError as error:
            raise BlobError(f"the blob folder {self.root} can't be written: {error.strerror}") from error
