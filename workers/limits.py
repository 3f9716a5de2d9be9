"""What a worker process may take from its machine and tell its children, set before any job runs."""

from __future__ import annotations

import os
import resource
from collections.abc import MutableMapping

OPEN_FILES = 1024
KEPT_SETTINGS = ("CACHE", "CC", "CORPORA", "LOG_LEVEL", "THREADS")
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
KEPT = frozenset(
    [
        *("CC", "HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
        *(f"GRADMILL_{name}" for name in KEPT_SETTINGS),
        *PROXIES,
        *map(str.upper, PROXIES),
    ]
)
KEPT_PREFIXES = ("DYLD_", "LC_", "LD_", "PYTHON", "SSL_CERT_", "XDG_", "ZIG_")


def restrict_process(memory_bytes: int | None = None, file_bytes: int | None = None) -> None:
    """Private files, no core dumps, few open files, and bounds on memory and files where given.

    Memory is what the process may write, not its address space: threads reserve more of that than they use.
    """
    os.umask(0o077)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    if memory_bytes is not None:
        _lower(resource.RLIMIT_DATA, memory_bytes)
    if file_bytes is not None:
        _lower(resource.RLIMIT_FSIZE, file_bytes)


def _lower(kind: int, most: int) -> None:
    """Sets a limit for good, unless a lower one is set."""
    bounds = [each for each in resource.getrlimit(kind) if each != resource.RLIM_INFINITY]
    bound = min([*bounds, most])
    resource.setrlimit(kind, (bound, bound))


def restrict_environment(environment: MutableMapping[str, str]) -> None:
    """Leaves what the engine and its compiler read; addresses and keys go, once the settings are read."""
    for name in list(environment):
        if name not in KEPT and not name.startswith(KEPT_PREFIXES):
            del environment[name]
