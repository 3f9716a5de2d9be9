"""Exit codes."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the exit code says."""

    OK = 0
    JOB_FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    UNAUTHORISED = 4
    NOT_FOUND = 5
    CANCELLED = 6
    TIMEOUT = 124
    DETACHED = 130


BY_STATE = {"succeeded": Exit.OK, "failed": Exit.JOB_FAILED, "cancelled": Exit.CANCELLED}
