"""Builds C for tests with each compiler at hand, into one temporary directory a process."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cffi
import pytest

NATIVE = Path(__file__).parents[2] / "engine" / "native"
EXACT = [
    *("-std=gnu11", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"),
    *("-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno", "-fwrapv"),
]
BUILDS = {
    "gcc": ["gcc", "-O1", "-march=native"],
    "gcc-O3": ["gcc", "-O3", "-march=native"],
    "gcc-avx2": ["gcc", "-O1", "-march=native", "-mno-avx512f"],
    "gcc-narrow": ["gcc", "-O1", "-march=x86-64-v2", "-mfma"],  # vectors of 16 bytes, as on ARM
    "clang": ["clang", "-O1", "-march=native"],
    "zig": [sys.executable, "-m", "ziglang", "cc", "-O1", "-march=native"],
}
EACH_BUILD = [pytest.param(name, marks=[pytest.mark.slow] if name == "gcc-O3" else []) for name in BUILDS]


@functools.cache
def _directory() -> Path:
    path = Path(tempfile.mkdtemp(prefix="native-tests-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def missing(build: str) -> str | None:
    """Why `build` cannot be used here, or None."""
    if build == "zig":
        return None if importlib.util.find_spec("ziglang") else "the ziglang wheel is not installed"
    if build == "gcc-narrow" and platform.machine() not in ("x86_64", "AMD64"):
        return "-mfma is an x86 flag"
    compiler = BUILDS[build][0]
    return None if shutil.which(compiler) else f"{compiler} is not installed"


@functools.cache
def build_library(text: str, build: str, *extra: str) -> Path:
    """Compiles C text, which may include the engine's headers, and returns the shared library."""
    reason = missing(build)
    if reason:
        pytest.skip(reason)
    stem = _directory() / f"lib{len(list(_directory().iterdir()))}"
    stem.with_suffix(".c").write_text(text)
    command = [*BUILDS[build], *EXACT, *extra, f"-I{NATIVE}"]
    command += [str(stem.with_suffix(".c")), "-o", str(stem.with_suffix(".so")), "-lpthread"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return stem.with_suffix(".so")


def loader(text: str, declarations: str) -> Callable[[str], tuple[Any, Any]]:
    """A function from a build's name to (ffi, library) for the C text; each is built once."""

    @functools.cache
    def load(build: str) -> tuple[Any, Any]:
        ffi = cffi.FFI()
        ffi.cdef(declarations)
        return ffi, ffi.dlopen(str(build_library(text, build)))

    return load
