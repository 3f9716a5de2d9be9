"""How many threads the cpu device takes, and what it prepares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine import threads
from engine.threads import default_threads, usable_cores


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADMILL_THREADS", "3")
    assert default_threads() == 3
    monkeypatch.setenv("GRADMILL_THREADS", "")
    assert default_threads() == usable_cores()


@pytest.mark.parametrize("wanted", ["0", "-1", "two", "1.5"])
def test_a_number_of_threads_that_is_none_is_refused(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADMILL_THREADS", wanted)
    with pytest.raises(ValueError, match=f"GRADMILL_THREADS is '{wanted}'"):
        default_threads()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_affinity_bounds_the_cores() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def group(folder: Path, quota: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.max").write_text(quota)
    return folder


def test_the_smallest_quota_among_nested_groups_holds(tmp_path: Path) -> None:
    root = group(tmp_path / "root", "max 100000\n")
    group(root / "outer", "150000 100000\n")
    group(root / "outer" / "inner", "400000 100000\n")
    membership = tmp_path / "membership"
    membership.write_text("0::/outer/inner\n")
    assert threads._cgroup_cores(membership, root) == 1.5
    membership.write_text("0::/\n")
    assert threads._cgroup_cores(membership, root) is None


def test_quotas_of_the_first_version_count_too(tmp_path: Path) -> None:
    folder = tmp_path / "root" / "cpu"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("200000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    membership = tmp_path / "membership"
    membership.write_text("4:cpu:/\n")
    assert threads._cgroup_cores(membership, tmp_path / "root") == 2.0


def test_a_system_without_groups_has_no_quota(tmp_path: Path) -> None:
    assert threads._cgroup_cores(tmp_path / "absent", tmp_path) is None
