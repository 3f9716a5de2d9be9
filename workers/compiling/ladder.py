"""Products in plain C, from three loops to vectors, each with the bits of ``dot``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.devices.array import Array, ffi
from engine.devices.cpu.device import CpuDevice

RUNGS = {
    "naive": "ladder_naive",
    "loop order": "ladder_order",
    "blocking": "ladder_blocked",
    "restrict, vectors": "ladder_vectors",
}
_TEXT = Path(__file__).with_name("ladder.c")
_RUNG = ffi.typeof("void (*)(const float *, const float *, float *, int64_t)")
_FLOATS = ffi.typeof("float *")


def rungs(device: CpuDevice, a: Array, b: Array) -> dict[str, tuple[Array, Callable[[], None]]]:
    """By name, the array that a rung writes a @ b into, and the call that does; built now if need be."""
    return {name: _bound(device, function, a, b) for name, function in RUNGS.items()}


def _bound(device: CpuDevice, function: str, a: Array, b: Array) -> tuple[Array, Callable[[], None]]:
    call = ffi.cast(_RUNG, device.native.symbol(_TEXT.read_text(), function))
    out = Array.empty(a.shape, a.dtype)
    side = a.shape[0]
    pointers = [ffi.cast(_FLOATS, x.address) for x in (a, b, out)]
    return out, lambda: call(*pointers, side)
