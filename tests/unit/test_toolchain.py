"""The compiler search takes only compilers that build right code for this machine."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import stat
import sys
from pathlib import Path

import pytest

from engine.devices.cpu import CpuDevice
from engine.devices.toolchain import find_toolchain, probe
from engine.errors import DeviceError

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(stat.S_IRWXU)
    return path


def test_none_means_no_compiler() -> None:
    assert find_toolchain({"GRADMILL_CC": "none", "CC": "gcc"}) is None


def test_without_a_compiler_the_device_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADMILL_CC", "none")
    with pytest.raises(DeviceError, match="install gcc, clang or the ziglang wheel"):
        CpuDevice()


def test_a_missing_command_is_no_compiler() -> None:
    assert find_toolchain({"GRADMILL_CC": "no-such-compiler"}) is None


@needs_gcc
def test_the_named_compiler_is_the_only_candidate_and_keeps_its_flags() -> None:
    found = find_toolchain({"GRADMILL_CC": "gcc -DNAMED", "CC": "no-such-compiler"})
    assert found is not None
    assert found.command == ("gcc",)
    assert found.flags.index("-DNAMED") > found.flags.index("-O1")


@needs_gcc
def test_cc_comes_before_the_usual_names_and_is_passed_over_when_broken(tmp_path: Path) -> None:
    mine = script(tmp_path, "mycc", 'exec gcc "$@"')
    found = find_toolchain({"CC": str(mine)})
    assert found is not None and found.command == (str(mine),)
    broken = script(tmp_path, "brokencc", "exit 1")
    found = find_toolchain({"CC": str(broken)})
    assert found is not None and found.command == ("gcc",)


@needs_gcc
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fails", 'case "$*" in *probe*) exit 1;; esac; exec gcc "$@"'),
        ("contracts", 'exec gcc "$@" -ffp-contract=fast -O2'),
        (
            "crashes",
            'case "$*" in *-o\\ *probe\\ *) exec gcc "$@" -Dmain=other -nostartfiles;; esac; exec gcc "$@"',
        ),
    ],
)
def test_a_compiler_whose_probe_fails_is_refused(tmp_path: Path, name: str, text: str) -> None:
    assert probe((str(script(tmp_path, name, text)),)) is None


@needs_gcc
def test_a_target_without_fma_is_refused() -> None:
    if probe(("gcc",)) is None or not _is_x86():
        pytest.skip("only x86 has targets without fma")
    assert probe(("gcc", "-mno-fma", "-mno-avx512f")) is None


@needs_gcc
def test_a_narrower_target_is_another_target() -> None:
    wide, narrow = probe(("gcc",)), probe(("gcc", "-mno-avx512f"))
    if wide is None or narrow is None:
        pytest.skip("gcc does not know this flag on this machine")
    if "-mprefer-vector-width=512" not in wide.flags:
        pytest.skip("this machine has no AVX-512")
    assert wide.target != narrow.target
    assert "-mprefer-vector-width=512" not in narrow.flags


@needs_gcc
def test_the_outcome_is_remembered_and_a_damaged_record_is_not_trusted(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    counted = script(tmp_path, "counted", f'echo x >> {log}; exec gcc "$@"')
    first = probe((str(counted),), tmp_path)
    calls = log.read_text()
    assert probe((str(counted),), tmp_path) == first
    assert log.read_text() == calls
    (record,) = tmp_path.glob("toolchain-*.json")
    record.write_text("{")
    assert probe((str(counted),), tmp_path) == first
    assert log.read_text() != calls


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="the ziglang wheel is not installed")
def test_the_ziglang_wheel_is_a_compiler() -> None:
    found = probe((sys.executable, "-m", "ziglang", "cc"))
    assert found is not None
    assert "clang" in found.version


@needs_gcc
def test_a_failed_build_shows_what_the_compiler_said(tmp_path: Path) -> None:
    toolchain = probe(("gcc",))
    assert toolchain is not None
    source = tmp_path / "wrong.c"
    source.write_text("int f(void) { return undeclared; }")
    with pytest.raises(DeviceError, match="undeclared"):
        toolchain.build(source, tmp_path / "wrong.so", tmp_path)


def _is_x86() -> bool:
    return platform.machine() in ("x86_64", "AMD64", "i686")
