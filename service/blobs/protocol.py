"""What a blob store does, and the errors it raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Protocol

_NAME = re.compile(r"[0-9a-f]{64}")


class BlobError(Exception):
    """A blob can't be stored or read."""


class BlobMissingError(BlobError, LookupError):
    """There is no blob of this name."""


class BlobDamagedError(BlobError):
    """The stored bytes are no longer those of the name; the blob was set aside."""


class BlobSpaceError(BlobError):
    """The disk is full, or the quota used up."""


class BlobTooLargeError(BlobError, ValueError):
    """More bytes came than were allowed."""


def check_name(name: str) -> str:
    """The name if it is 64 hexadecimal digits: no other text becomes a path. Else BlobMissingError."""
    if _NAME.fullmatch(name) is None:
        raise BlobMissingError(f"blob {name!r}: a name is 64 lower-case hexadecimal digits")
    return name


class BlobWriter(Protocol):
    """A blob that is being written: nothing can be seen of it before ``commit``."""

    def write(self, part: bytes) -> None:
        """Adds bytes; BlobTooLargeError beyond the limit."""

    def flush(self) -> None:
        """Hands what was written to the file system; BlobError where it can't take it."""

    def commit(self, expected: str | None = None) -> str:
        """Makes it durable and visible; returns its name. BlobDamagedError if it isn't the expected one."""

    def abort(self) -> None:
        """Forgets it. Harmless after ``commit``."""


class BlobStore(Protocol):
    """Bytes by sha256, as whoever works with them sees it: nothing can be removed or changed."""

    def put(self, content: bytes) -> str:
        """Stores bytes durably and returns their name; what is there whole is not written again."""

    def writer(self, limit: int | None = None) -> BlobWriter:
        """A writer for content that comes in parts, at most ``limit`` bytes."""

    def get(self, name: str) -> bytes:
        """The whole content; BlobMissingError where there is none, BlobDamagedError where it changed."""

    def size(self, name: str) -> int:
        """The number of bytes; BlobMissingError where there is none."""

    def open_range(self, name: str, start: int = 0) -> BinaryIO:
        """A readable file positioned at ``start``, which the caller closes; errors as of ``get``."""

    def check(self) -> None:
        """Raises BlobError when the store can't take a blob now."""


class CollectedStore(BlobStore, Protocol):
    """A store as its owner sees it, who also removes what nothing refers to."""

    def delete(self, name: str, before: float | None = None) -> bool:
        """Removes a blob, or only if it was last put before a time (s); returns whether it did."""

    def older_than(self, before: float) -> Iterator[str]:
        """Names of the blobs that were last put before a time (s since the epoch)."""

    def usage(self) -> tuple[int, int]:
        """How many blobs there are, and their bytes together."""
