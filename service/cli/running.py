"""``<data>/run.json``: where the system that runs on a data folder can be reached."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Running:
    """A running system: its address, its Redis and the process that holds it together."""

    url: str
    redis_url: str
    pid: int


class AlreadyRunningError(RuntimeError):
    """Another process holds the data folder."""


class DataFolderError(RuntimeError):
    """The data folder can't be made or written."""


def record_path(data: Path) -> Path:
    return data / "run.json"


def read_running(data: Path) -> Running | None:
    """The system on this data folder, or None when none runs."""
    try:
        running = Running(**json.loads(record_path(data).read_text()))
        os.kill(running.pid, 0)
    except (OSError, ValueError, TypeError):
        return None
    return running


def write_running(data: Path, running: Running) -> None:
    aside = record_path(data).with_suffix(".tmp")
    aside.write_text(json.dumps(asdict(running)) + "\n")
    aside.replace(record_path(data))


def make_folder(data: Path) -> None:
    """Makes the data folder where it isn't there. DataFolderError when it can't be had or written."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        (data / "run.lock").open("w").close()
    except OSError as error:
        reason = error.strerror or error
        raise DataFolderError(
            f"the data folder {data} can't be used: {reason}; set GRADMILL_DATA_DIR"
        ) from error


@contextmanager
def owning(data: Path) -> Iterator[None]:
    """Holds the data folder, and makes it. AlreadyRunningError when another process does, DataFolderError.

    The record of the running system goes at the end.
    """
    make_folder(data)
    with (data / "run.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunningError(f"a system already runs on {data}") from None
        try:
            yield
        finally:
            record_path(data).unlink(missing_ok=True)
