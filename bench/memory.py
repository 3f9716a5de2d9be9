"""Elementwise chains and reductions beside a copy of as many bytes: ``python -m bench.memory``.

What a row moves is what its kernel must read and write once; memcpy moves as much in all. So a ratio of
memcpy tells which share of a copy's bandwidth is reached. Arrays of 4 MB stay in the third-level cache, those
of 64 MB don't. Results go to buffers that exist: ours come from a pool, NumPy and torch are given theirs
where the last operation takes one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench.pairing import OURS, Row, compare, write
from engine import Graph, Tensor
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.device import use_device

UNIT = "GB/s"
SIDES = (1024, 4096)  # of square arrays of float32
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """One expression in three libraries.

    ``written`` is how many elements it writes for each that it reads of one operand: 1, or 0 for a reduction.
    NumPy's and torch's are told where the result goes.
    """

    name: str
    operands: str
    written: int
    ours: Callable[[Values], Tensor]
    numpy: Callable[[Any, Values, Any], object]
    torch: Callable[[Any, Values, Any], object]


PROGRAMS = (
    Program(
        "a * 0.5",
        "a",
        1,
        lambda x: x["a"] * 0.5,
        lambda np, x, out: np.multiply(x["a"], np.float32(0.5), out=out),
        lambda torch, x, out: torch.mul(x["a"], 0.5, out=out),
    ),
    Program(
        "a + b",
        "ab",
        1,
        lambda x: x["a"] + x["b"],
        lambda np, x, out: np.add(x["a"], x["b"], out=out),
        lambda torch, x, out: torch.add(x["a"], x["b"], out=out),
    ),
    Program(
        "relu(a + b) * c",
        "abc",
        1,
        lambda x: (x["a"] + x["b"]).relu() * x["c"],
        lambda np, x, out: np.multiply(
            np.maximum(np.add(x["a"], x["b"], out=out), 0, out=out), x["c"], out=out
        ),
        lambda torch, x, out: torch.add(x["a"], x["b"], out=out).relu_().mul_(x["c"]),
    ),
    Program(
        "exp(a)",
        "a",
        1,
        lambda x: x["a"].exp(),
        lambda np, x, out: np.exp(x["a"], out=out),
        lambda torch, x, out: torch.exp(x["a"], out=out),
    ),
    Program(
        "tanh(a)",
        "a",
        1,
        lambda x: x["a"].tanh(),
        lambda np, x, out: np.tanh(x["a"], out=out),
        lambda torch, x, out: torch.tanh(x["a"], out=out),
    ),
    Program(
        "softmax(a)",
        "a",
        1,
        lambda x: x["a"].softmax(),
        lambda np, x, out: _softmax(np, x["a"], out),
        lambda torch, x, out: torch.softmax(x["a"], -1, out=out),
    ),
    Program(
        "sum(a)",
        "a",
        0,
        lambda x: x["a"].sum(),
        lambda np, x, out: np.sum(x["a"]),
        lambda torch, x, out: torch.sum(x["a"]),
    ),
    Program(
        "max(a)",
        "a",
        0,
        lambda x: x["a"].max(),
        lambda np, x, out: np.max(x["a"]),
        lambda torch, x, out: torch.max(x["a"]),
    ),
    Program(
        "sum(a * b)",
        "ab",
        0,
        lambda x: (x["a"] * x["b"]).sum(),
        lambda np, x, out: np.vdot(x["a"], x["b"]),
        lambda torch, x, out: torch.dot(x["a"].view(-1), x["b"].view(-1)),
    ),
    Program(
        "sum(a, axis=0)",
        "a",
        0,
        lambda x: x["a"].sum(axis=0),
        lambda np, x, out: np.sum(x["a"], axis=0),
        lambda torch, x, out: torch.sum(x["a"], 0),
    ),
    Program(
        "sum(a, axis=1)",
        "a",
        0,
        lambda x: x["a"].sum(axis=1),
        lambda np, x, out: np.sum(x["a"], axis=1),
        lambda torch, x, out: torch.sum(x["a"], 1),
    ),
)


def _softmax(np: Any, a: Any, out: Any) -> object:
    np.subtract(a, a.max(-1, keepdims=True), out=out)
    np.exp(out, out=out)
    return np.divide(out, out.sum(-1, keepdims=True), out=out)


class Copy:
    """A copy of so many bytes, cut into one part a thread."""

    def __init__(self, nbytes: int, threads: int) -> None:
        import numpy as np

        self._source, self._target = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
        self._parts = [(nbytes * k // threads, nbytes * (k + 1) // threads) for k in range(threads)]
        self._pool = ThreadPoolExecutor(threads)

    def __call__(self) -> None:
        if len(self._parts) == 1:
            self._copy(self._parts[0])
        else:
            list(self._pool.map(self._copy, self._parts))

    def _copy(self, part: tuple[int, int]) -> None:
        first, last = part
        ctypes.memmove(self._target.ctypes.data + first, self._source.ctypes.data + first, last - first)


def run(program: Program, side: int, threads: int) -> Row:
    """One program on squares of this side, by everybody on so many threads."""
    import numpy as np

    rng, shape = np.random.default_rng(0), (side, side)
    arrays = {name: rng.normal(size=shape).astype("float32") for name in program.operands}
    graph = Graph()
    with graph:
        inputs = {name: graph.input(name, shape) for name in program.operands}
        result = program.ours(inputs)
    feeds = {name: Tensor(x) for name, x in arrays.items()}
    plan, out = graph.compile(result), np.empty(shape, "float32")
    _check(program, np.asarray(program.numpy(np, arrays, out)), plan.run(feeds)._value)
    moved = 4 * side * side * (len(program.operands) + program.written)
    contenders: dict[str, Callable[[], object]] = {
        OURS: lambda: plan.run(feeds),
        "memcpy": Copy(moved // 2, threads),
        "numpy": lambda: program.numpy(np, arrays, out),
    }
    try:
        import torch
    except ImportError:
        pass
    else:
        torch.set_num_threads(threads)
        tensors = {name: torch.from_numpy(x) for name, x in arrays.items()}
        place = torch.empty(shape)
        contenders["torch"] = lambda: program.torch(torch, tensors, place)
    name = f"{program.name}, {side}², {threads} thread" + "s" * (threads > 1)
    return compare(name, contenders, work=moved * 1e-9, unit=UNIT)


def _check(program: Program, theirs: Any, ours: Array) -> None:
    import numpy as np

    if not np.allclose(np.frombuffer(ours.tobytes(), "float32"), theirs.ravel(), rtol=1e-3, atol=1e-2):
        raise AssertionError(f"{program.name} differs from NumPy")


def measure() -> list[Row]:
    """Every program and size, on one thread and on two."""
    rows = []
    for threads in (1, 2):
        with use_device(CpuDevice(threads)):
            rows += [run(program, side, threads) for program in PROGRAMS for side in SIDES]
    return rows


if __name__ == "__main__":
    write("memory", measure())
