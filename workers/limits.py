"""What a worker process may take from its machine, set before any job runs."""

from __future__ import annotations

import os
import resource


def restrict_process(memory_bytes: int | None = None) -> None:
    """Private files, no core dumps, and at most ``memory_bytes`` of address space where given."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
