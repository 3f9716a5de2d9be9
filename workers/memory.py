"""How much memory there is, and whether the kernel killed a process because it ran out."""

from __future__ import annotations

import os
from pathlib import Path

EVENTS = Path("/sys/fs/cgroup/memory.events")
OTHERS = 10  # one part in so many is left to everything else
MEMBERSHIP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def oom_kills(events_file: Path = EVENTS) -> int:
    """How many processes of this control group the kernel has killed for memory; 0 where it doesn't count."""
    try:
        counters = dict(line.split() for line in events_file.read_text().splitlines())
        return int(counters.get("oom_kill", 0))
    except (OSError, ValueError):
        return 0


def default_bound() -> int:
    """Bytes that one process may have so that it, and not the machine, runs out of memory first."""
    memory = usable_memory()
    return memory - memory // OTHERS


def usable_memory(membership: Path = MEMBERSHIP, groups: Path = GROUPS) -> int:
    """Bytes of the machine, or of the control group that bounds this process where that is less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return limits[0]
    for line in lines:  # number:controllers:path; version 2 names no controllers
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            limits += _limits(groups, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits(groups / "memory", path, "memory.limit_in_bytes")
    return min(limits)


def _limits(root: Path, path: str, name: str) -> list[int]:
    """The limits of a group and those around it; a container sees its own as the root."""
    folder = root / path.lstrip("/")
    found = []
    for group in (folder, *folder.parents):
        if group.is_relative_to(root) and (limit := _read_limit(group / name)) is not None:
            found.append(limit)
    return found


def _read_limit(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # no such group, or "max"
        return None
