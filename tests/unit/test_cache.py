"""The kernel cache: one build a text, whoever asks; never the wrong library."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import cffi
import pytest

from engine.devices import cache
from engine.devices.cache import KernelCache, kernel_key
from engine.devices.toolchain import Toolchain, find_toolchain
from engine.errors import DeviceError

FOUND = find_toolchain()
if FOUND is None:
    pytest.skip("no C compiler here", allow_module_level=True)
TOOLCHAIN: Toolchain = FOUND


def answer(library: Path) -> int:
    ffi = cffi.FFI()
    ffi.cdef("int answer(void);")
    return int(ffi.dlopen(str(library)).answer())


def text(value: int) -> str:
    return f"int answer(void) {{ return {value}; }}\n"


def test_a_text_is_built_once(tmp_path: Path) -> None:
    first = KernelCache(tmp_path / "cache")
    library = first.library(text(1), TOOLCHAIN)
    assert answer(library) == 1
    assert first.library(text(1), TOOLCHAIN) == library
    assert first.built == 1
    second = KernelCache(tmp_path / "cache")
    assert second.library(text(1), TOOLCHAIN) == library
    assert second.built == 0


def test_the_folder_is_private(tmp_path: Path) -> None:
    assert KernelCache(tmp_path / "new" / "cache").folder.stat().st_mode & 0o077 == 0


def test_each_part_of_the_build_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {
        kernel_key(text(1), TOOLCHAIN),
        kernel_key(text(2), TOOLCHAIN),
        kernel_key(text(1), replace(TOOLCHAIN, version="another release")),
        kernel_key(text(1), replace(TOOLCHAIN, target="another machine")),
        kernel_key(text(1), replace(TOOLCHAIN, flags=(*TOOLCHAIN.flags, "-DX"))),
        kernel_key(text(1), replace(TOOLCHAIN, command=("another",))),
    }
    monkeypatch.setattr(cache, "native_digest", lambda: "other headers")
    keys.add(kernel_key(text(1), TOOLCHAIN))
    assert len(keys) == 7


def test_a_hit_compares_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two texts under one key, as if the hash collided: each gets its own code."""
    monkeypatch.setattr(cache, "kernel_key", lambda text, toolchain: "collision")
    kernels = KernelCache(tmp_path / "cache")
    kernels.library(text(1), TOOLCHAIN)
    assert answer(kernels.library(text(2), TOOLCHAIN)) == 2
    assert kernels.built == 2


@pytest.mark.parametrize("length", [0, 100, 4096])
def test_a_truncated_library_is_built_again(length: int, tmp_path: Path) -> None:
    library = KernelCache(tmp_path / "cache").library(text(5), TOOLCHAIN)
    library.write_bytes(library.read_bytes()[:length])
    again = KernelCache(tmp_path / "cache")
    assert answer(again.library(text(5), TOOLCHAIN)) == 5
    assert again.built == 1


@pytest.mark.parametrize("suffix", [".so", ".c"])
def test_a_flipped_bit_is_found_before_it_is_run(suffix: str, tmp_path: Path) -> None:
    damaged = KernelCache(tmp_path / "cache").library(text(6), TOOLCHAIN).with_suffix(suffix)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0x80
    damaged.write_bytes(content)
    again = KernelCache(tmp_path / "cache")
    assert answer(again.library(text(6), TOOLCHAIN)) == 6
    assert again.built == 1


def test_a_library_without_its_text_is_built_again(tmp_path: Path) -> None:
    kernels = KernelCache(tmp_path / "cache")
    library = kernels.library(text(3), TOOLCHAIN)
    library.with_suffix(".c").unlink()
    kernels.library(text(3), TOOLCHAIN)
    assert kernels.built == 2


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    kernels = KernelCache(tmp_path / "cache")
    with pytest.raises(DeviceError, match="nonsense"):
        kernels.library("nonsense\n", TOOLCHAIN)
    assert list(kernels.folder.iterdir()) == []


def test_threads_that_ask_at_once_build_once(tmp_path: Path) -> None:
    kernels = KernelCache(tmp_path / "cache")
    start = threading.Barrier(8)

    def ask(_: int) -> Path:
        start.wait()
        return kernels.library(text(4), TOOLCHAIN)

    with ThreadPoolExecutor(8) as pool:
        libraries = set(pool.map(ask, range(8)))
    assert len(libraries) == 1
    assert kernels.built == 1


def test_processes_that_ask_at_once_all_get_a_whole_library(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from engine.devices.cache import KernelCache\n"
        "from engine.devices.toolchain import find_toolchain\n"
        "kernels = KernelCache(Path(sys.argv[1]))\n"
        "import cffi; ffi = cffi.FFI(); ffi.cdef('int answer(void);')\n"
        "library = kernels.library('int answer(void) { return 5; }\\n', find_toolchain())\n"
        "print(ffi.dlopen(str(library)).answer())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", program, str(tmp_path / "cache")]
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert [process.communicate()[0].strip() for process in started] == ["5"] * 4
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".c", ".so"]


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    kernels = KernelCache(shared)
    assert kernels.folder != shared
    assert answer(kernels.library(text(6), TOOLCHAIN)) == 6


def test_a_place_where_no_folder_can_be_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kernels = KernelCache(tmp_path / "file" / "cache")
    assert answer(kernels.library(text(7), TOOLCHAIN)) == 7


def test_the_default_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADMILL_CACHE", str(tmp_path / "named"))
    assert KernelCache().folder == tmp_path / "named"
    monkeypatch.delenv("GRADMILL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert KernelCache().folder == tmp_path / "gradmill"
