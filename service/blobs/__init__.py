"""Blobs: immutable bytes named by their sha256."""

from __future__ import annotations

from service.blobs.folder import FolderStore
from service.blobs.http import HttpStore
from service.blobs.protocol import (
    BlobDamagedError,
    BlobError,
    BlobMissingError,
    BlobSpaceError,
    BlobStore,
    BlobTooLargeError,
    BlobWriter,
    CollectedStore,
    check_name,
)
from service.settings import Settings, read_secret


def open_store(settings: Settings) -> BlobStore:
    """The store that a worker uses: the folder, or another machine's through its API."""
    if settings.blob_url is None:
        return FolderStore(settings.blob_dir)
    return HttpStore(settings.blob_url, read_secret(settings.worker_key_file))


def open_folder(settings: Settings) -> CollectedStore:
    """The store that the API keeps."""
    return FolderStore(settings.blob_dir)


__all__ = [
    "BlobDamagedError",
    "BlobError",
    "BlobMissingError",
    "BlobSpaceError",
    "BlobStore",
    "BlobTooLargeError",
    "BlobWriter",
    "CollectedStore",
    "FolderStore",
    "HttpStore",
    "check_name",
    "open_folder",
    "open_store",
]
