"""Compiled kernels in this process: building, loading, and the one call that starts them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from engine.devices.array import ffi
from engine.devices.cache import NATIVE, KernelCache
from engine.devices.toolchain import Toolchain
from engine.errors import DeviceError

ffi.cdef("void *dlopen(const char *, int); void *dlsym(void *, const char *); char *dlerror(void);")
_libc = ffi.dlopen(None)
_START = ffi.typeof("void (*)(const char *)")
_POOL_SET = ffi.typeof("void (*)(int)")
_RUN_PLAN = ffi.typeof("int64_t (*)(const void *, const char *, int64_t *)")
_CHUNKS = ffi.typeof("int64_t (*)(const int64_t *)")


class Native:
    """Symbols of translation units, each built and loaded on first use. Safe to share between threads."""

    def __init__(self, toolchain: Toolchain, kernels: KernelCache) -> None:
        self.toolchain = toolchain
        self.kernels = kernels
        self._handles: dict[str, Any] = {}
        self._lock = threading.Lock()
        runtime = (NATIVE / "launch.c").read_text()
        self.start: Callable[[bytes], None] = ffi.cast(_START, self.symbol(runtime, "gm_start"))
        self.run_plan: Callable[[Any, bytes, Any], int] = ffi.cast(
            _RUN_PLAN, self.symbol(runtime, "gm_run_plan")
        )
        self._pool_set: Callable[[int], None] = ffi.cast(_POOL_SET, self.symbol(runtime, "gm_pool_set"))

    def knows(self, unit: str) -> bool:
        """Whether C text ``unit`` is loaded already."""
        return unit in self._handles

    def symbol(self, unit: str, name: str) -> int:
        """The address of function ``name`` of C text ``unit``. Raises DeviceError if it cannot be built."""
        handle = self._handles.get(unit)
        if handle is None:
            path = self.kernels.library(unit, self.toolchain)
            handle = _libc.dlopen(os.fsencode(path), os.RTLD_NOW | os.RTLD_LOCAL)
            if handle == ffi.NULL:
                raise DeviceError(f"cannot load {path}: {_error()}; delete it, and it will be built again")
            with self._lock:
                self._handles[unit] = handle
        found = _libc.dlsym(handle, name.encode())
        if found == ffi.NULL:
            raise DeviceError(f"a kernel library has no {name}: {_error()}")
        return int(ffi.cast("intptr_t", found))

    def chunks(self, unit: str, name: str, words: Sequence[int]) -> int:
        """How many chunks function ``name`` of ``unit`` cuts the work described by ``words`` into."""
        count = ffi.cast(_CHUNKS, self.symbol(unit, name))
        return int(count(ffi.new("int64_t[]", list(words))))

    def set_threads(self, threads: int) -> None:
        self._pool_set(threads)


@cache
def native_unit(*headers: str) -> str:
    """A translation unit that is only hand-written C."""
    return "".join(f'#include "{header}"\n' for header in headers)


def _error() -> str:
    message = _libc.dlerror()
    return "unknown error" if message == ffi.NULL else bytes(ffi.string(message)).decode(errors="replace")
