"""How many threads this process may use."""

from __future__ import annotations

import os
from pathlib import Path


def default_threads() -> int:
    """``$GRADMILL_THREADS``, else the cores this process may run on, within its cgroup's quota."""
    wanted = os.environ.get("GRADMILL_THREADS", "").strip()
    if wanted:
        if not wanted.isdecimal() or int(wanted) < 1:
            raise ValueError(f"GRADMILL_THREADS is {wanted!r}; it must be a whole number from 1")
        return int(wanted)
    return usable_cores()


def usable_cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_cores(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return cores if quota is None else max(1, min(cores, int(quota)))


def _cgroup_cores(membership: Path, root: Path) -> float | None:
    """The smallest quota among this process's control group and those around it, in cores."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    own = next((line.split(":", 2)[2] for line in lines if line.startswith("0::")), "/")
    folder = root / own.lstrip("/")
    limits = [_quota(part / "cpu.max") for part in (folder, *folder.parents) if part.is_relative_to(root)]
    limits.append(_quota(root / "cpu" / "cpu.cfs_quota_us", root / "cpu" / "cpu.cfs_period_us"))
    found = [limit for limit in limits if limit is not None]
    return min(found) if found else None


def _quota(*files: Path) -> float | None:
    """Quota over period, in one file (version 2) or two (version 1); None where there is none."""
    try:
        quota, period = " ".join(file.read_text() for file in files).split()
    except (OSError, ValueError):
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)
