"""Results have the same bits for any number of threads and with any compiler, vector width and layout."""

from __future__ import annotations

import importlib.util
import random
import shutil
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any

import pytest

from engine.core.dtype import DType, bfloat16, bool_, float32, int32, int64, uint32
from engine.core.node import Node
from engine.core.opdef import OPS, make
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.toolchain import find_toolchain

if find_toolchain() is None:
    pytest.skip("no C compiler here", allow_module_level=True)

Values = dict[str, bytes]


def run(device: CpuDevice, op: str, *inputs: Array, attrs: tuple[Any, ...] = ()) -> Array:
    node = make(op, tuple(Node("input", (), (), x.shape, x.dtype) for x in inputs), *attrs)
    return device.run(op, attrs, inputs, tuple(map(int, map(str, node.shape))), node.dtype)


def normal(rng: random.Random, shape: tuple[int, ...], dtype: DType = float32) -> Array:
    pool = [rng.gauss(0, 1) for _ in range(997)]
    return Array.from_list([pool[i * 7 % 997] for i in range(prod(shape))], shape, dtype)


def workload(device: CpuDevice) -> Values:
    """Products, reductions, scans, indexing, copies and arithmetic, large enough to be cut into chunks."""
    rng = random.Random(7)
    x, y, row = normal(rng, (300, 700)), normal(rng, (700, 210)), normal(rng, (700,))
    wide = run(device, "broadcast", row, attrs=((300, 700),))
    turned = run(device, "transpose", x, attrs=((1, 0),))
    index = Array.from_list([rng.randrange(300) for _ in range(900)], (900,), int64)
    flat = Array.from_list([rng.randrange(5000) for _ in range(70000)], (70000,), int32)
    key = Array.from_list([1, 2], (2,), uint32)
    ordinal, turn = (Array.from_list([k], (), uint32) for k in (3, 0))
    values = {
        "add": run(device, "add", x, wide),
        "mul of a transposed": run(device, "mul", turned, run(device, "reshape", x, attrs=((700, 300),))),
        "dot": run(device, "dot", x, y),
        "dot of a transposed": run(device, "dot", turned, x),
        "sum of rows": run(device, "reduce", x, attrs=("sum", (1,))),
        "sum of columns": run(device, "reduce", x, attrs=("sum", (0,))),
        "sum of all": run(device, "reduce", x, attrs=("sum", (0, 1))),
        "scan": run(device, "scan", x, attrs=("sum", 1, True)),
        "gather": run(device, "gather", x, index, attrs=("checked",)),
        "scatter of rows": run(
            device, "scatter", x, index, normal(rng, (900, 700)), attrs=("add", "checked")
        ),
        "scatter of numbers": run(
            device, "scatter", normal(rng, (5000,)), flat, normal(rng, (70000,)), attrs=("add", "checked")
        ),
        "copy": run(device, "reshape", turned, attrs=((210000,),)),
        "cast": run(device, "cast", x, attrs=(bfloat16,)),
        "random bits": run(device, "random_bits", key, ordinal, turn, attrs=((70001,),)),
    }
    return {name: value.tobytes() for name, value in values.items()}


@pytest.fixture(scope="module")
def one_thread() -> Values:
    return workload(CpuDevice(threads=1))


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_the_number_of_threads_changes_nothing(threads: int, one_thread: Values) -> None:
    got = workload(CpuDevice(threads=threads))
    assert [name for name, raw in got.items() if raw != one_thread[name]] == []


def test_python_threads_share_a_device(one_thread: Values) -> None:
    device = CpuDevice(threads=2)
    start = threading.Barrier(4)

    def work(_: int) -> Values:
        start.wait()
        return workload(device)

    with ThreadPoolExecutor(4) as pool:
        assert all(values == one_thread for values in pool.map(work, range(4)))


needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
COMPILERS = [
    pytest.param("gcc -mno-avx512f", marks=needs_gcc),
    pytest.param("gcc -mno-avx512f -mno-avx2", marks=[pytest.mark.slow, needs_gcc]),
    pytest.param("gcc -O3", marks=[pytest.mark.slow, needs_gcc]),
    pytest.param(
        f"{sys.executable} -m ziglang cc",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="no ziglang wheel"),
        ],
    ),
]


def device_of(command: str) -> CpuDevice:
    toolchain = find_toolchain({"GRADMILL_CC": command})
    if toolchain is None:
        pytest.skip(f"{command} does not work here")
    return CpuDevice(threads=1, toolchain=toolchain)


@pytest.mark.parametrize("command", COMPILERS)
def test_the_compiler_and_its_vectors_change_nothing(command: str, one_thread: Values) -> None:
    got = workload(device_of(command))
    assert [name for name, raw in got.items() if raw != one_thread[name]] == []


def elementwise_values(device: CpuDevice) -> Iterator[tuple[str, bytes]]:
    """Every elementwise primitive in every dtype, on numbers of all magnitudes; NaNs become one."""
    rng = random.Random(3)
    for op, row in OPS.items():
        if row.kind != "elementwise" or op in ("cast", "bitcast"):
            continue
        for dtype in row.dtypes:
            operands = [
                Array.from_list([spread(rng, dtype) for _ in range(1003)], (1003,), dtype)
                for _ in range(row.arity or 0)
            ]
            if op == "select":
                operands[0] = Array.from_list([rng.random() < 0.5 for _ in range(1003)], (1003,), bool_)
            value = run(device, op, *operands)
            yield f"{op} {dtype}", b"".join(map(value.dtype.encode, value.tolist()))


def spread(rng: random.Random, dtype: DType) -> float:
    if dtype is bool_:
        return rng.random() < 0.5
    if dtype.is_int:
        return rng.randrange(-(2**31), 2**31) >> rng.randrange(32) or 3
    return rng.choice((-1, 1)) * 2 ** rng.uniform(-140, 127) if rng.random() < 0.3 else rng.gauss(0, 3)


@pytest.mark.parametrize("command", COMPILERS)
@pytest.mark.slow
def test_elementwise_primitives_do_not_depend_on_the_compiler(command: str) -> None:
    want = dict(elementwise_values(CpuDevice(threads=1)))
    got = dict(elementwise_values(device_of(command)))
    assert [name for name, raw in got.items() if raw != want[name]] == []
