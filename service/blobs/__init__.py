"""Blobs: immutable bytes named by their sha256."""

from __future__ import annotations

from service.blobs.folder import FolderStore
from service.blobs.protocol import (
    BlobDamagedError,
    BlobError,
    BlobMissingError,
    BlobSpaceError,
    BlobStore,
    BlobTooLargeError,
    BlobWriter,
    check_name,
)
from service.settings import Settings


def open_store(settings: Settings) -> BlobStore:
    """The store that the settings name."""
    return FolderStore(settings.blob_dir)


__all__ = [
    "BlobDamagedError",
    "BlobError",
    "BlobMissingError",
    "BlobSpaceError",
    "BlobStore",
    "BlobTooLargeError",
    "BlobWriter",
    "FolderStore",
    "check_name",
    "open_store",
]
