"""Whether the kernel killed a process because memory ran out."""

from __future__ import annotations

from pathlib import Path

EVENTS = Path("/sys/fs/cgroup/memory.events")


def oom_kills(events_file: Path = EVENTS) -> int:
    """How many processes of this control group the kernel has killed for memory; 0 where it doesn't count."""
    try:
        counters = dict(line.split() for line in events_file.read_text().splitlines())
        return int(counters.get("oom_kill", 0))
    except (OSError, ValueError):
        return 0
