"""The kernel cache: each C text is compiled once for a compiler and machine, whoever asks first."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import threading
from functools import cache
from pathlib import Path

from engine.devices.toolchain import Toolchain

NATIVE = Path(__file__).parents[1] / "native"


class KernelCache:
    """Shared libraries in a folder, named by the hash of all that decides their code.

    Text and digest lie beside each library, and a hit compares both, so what was damaged is built again.
    Files are written aside and renamed, so any number of threads and processes can share the folder. Where
    ``folder`` cannot be made private and writable, the cache lives in a temporary folder that goes with the
    process.
    """

    def __init__(self, folder: Path | None = None) -> None:
        wanted = default_folder() if folder is None else folder
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if not _is_usable(wanted):
            self._temporary = tempfile.TemporaryDirectory(prefix="gradmill-kernels-")
            wanted = Path(self._temporary.name)
        self.folder = wanted
        self.built = 0  # libraries compiled by this object
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}

    def library(self, text: str, toolchain: Toolchain) -> Path:
        """The shared library of the C translation unit ``text``, built now if need be. Raises DeviceError."""
        key = kernel_key(text, toolchain)
        source, library = self.folder / f"{key}.c", self.folder / f"{key}.so"
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if not _holds(source, library, text):
                self._build(text, toolchain, source, library)
        return library

    def _build(self, text: str, toolchain: Toolchain, source: Path, library: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="build-", dir=self.folder) as aside:
            new_source, new_library = Path(aside) / source.name, Path(aside) / library.name
            new_source.write_text(text)
            toolchain.build(new_source, new_library, NATIVE)
            new_source.write_bytes(_record(text, new_library.read_bytes()))
            new_library.replace(library)
            new_source.replace(source)  # last: a hit needs both
        with self._lock:
            self.built += 1


def kernel_key(text: str, toolchain: Toolchain) -> str:
    parts = (text, *toolchain.command, toolchain.version, *toolchain.flags, toolchain.target, native_digest())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def native_digest() -> str:
    """A hash of all hand-written C, which any kernel may include."""
    digest = hashlib.sha256()
    for path in sorted(NATIVE.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def default_folder() -> Path:
    """``$GRADMILL_CACHE``, else ``gradmill`` in the user's cache folder."""
    named = os.environ.get("GRADMILL_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradmill"


def _is_usable(folder: Path) -> bool:
    """Whether ``folder`` takes files from us and nobody else: code is loaded from it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
            return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _record(text: str, library: bytes) -> bytes:
    """What lies beside a library: its text, and its digest, by which damage is found before it is run."""
    return f"{text}/* library {hashlib.sha256(library).hexdigest()} */\n".encode()


def _holds(source: Path, library: Path, text: str) -> bool:
    with contextlib.suppress(OSError):
        return source.read_bytes() == _record(text, library.read_bytes())
    return False
