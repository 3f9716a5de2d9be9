"""Microseconds of one small primitive, from Python to the result: ``python -m bench.dispatch``.

Peers are NumPy and, where installed, torch on one thread, doing the same on arrays of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.pairing import OURS, Row, compare, write
from engine.core.dtype import float32, int64
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice

SHAPES = ((4,), (32, 128), (256, 512))

Call = Callable[[], object]


def numpy_calls(x: Any, row: Any, square: Any, index: Any) -> dict[str, Call]:
    return {
        "add": lambda: x + x,
        "add a row": lambda: x + row,
        "sum of rows": lambda: x.sum(-1),
        "dot": lambda: x @ square,
        "gather": lambda: x[index],
    }


def torch_calls(arrays: list[Any]) -> dict[str, Call]:
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    x, row, square, index = (torch.from_numpy(array) for array in arrays)
    return {
        "add": lambda: x + x,
        "add a row": lambda: x + row,
        "sum of rows": lambda: x.sum(-1),
        "dot": lambda: x @ square,
        "gather": lambda: x[index],
    }


def our_calls(device: CpuDevice, arrays: list[Any]) -> dict[str, Call]:
    x, row, square = (Array.from_bytes(a.tobytes(), a.shape, float32) for a in arrays[:3])
    index = Array.from_bytes(arrays[3].tobytes(), arrays[3].shape, int64)
    shape = x.shape
    wide = device.run("broadcast", (shape,), [row], shape, float32)
    kept, last = shape[:-1], len(shape) - 1
    calls: dict[str, Call] = {
        "add": lambda: device.run("add", (), [x, x], shape, float32),
        "add a row": lambda: device.run("add", (), [x, wide], shape, float32),
        "sum of rows": lambda: device.run("reduce", ("sum", (last,)), [x], kept, float32),
        "gather": lambda: device.run("gather", ("checked",), [x, index], (*index.shape, *shape[1:]), float32),
    }
    if len(shape) == 2:
        calls["dot"] = lambda: device.run("dot", (), [x, square], (shape[0], square.shape[1]), float32)
    return calls


def main() -> None:
    rng = np.random.default_rng(0)
    device = CpuDevice(threads=1)
    rows: list[Row] = []
    for shape in SHAPES:
        arrays = [
            rng.standard_normal(shape, np.float32),
            rng.standard_normal(shape[-1:], np.float32),
            rng.standard_normal((shape[-1], 32), np.float32),
            rng.integers(0, shape[0], 16),
        ]
        peers = {"numpy": numpy_calls(*arrays), "torch": torch_calls(arrays)}
        for name, call in our_calls(device, arrays).items():
            contenders = {OURS: call, **{who: calls[name] for who, calls in peers.items() if calls}}
            rows.append(compare(f"{name} {shape}", contenders, work=1e-3, unit="kop/s"))
    write("dispatch", rows)


if __name__ == "__main__":
    main()
