"""Matrix products beside NumPy and torch, on one and two threads: ``python -m bench.gemm``.

Each number of threads is measured in a process of its own, since NumPy's library reads it once, when loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

from bench.pairing import OURS, Row, Spread, compare, write

THREADS = (1, 2)
MARK = "rows: "


@dataclass(frozen=True, slots=True)
class Product:
    """(batch, m, k) by (batch, k, n); a transposed operand is stored with its last two axes exchanged."""

    m: int
    k: int
    n: int
    batch: int = 1
    dtype: str = "float32"
    a_transposed: bool = False
    b_transposed: bool = False

    @property
    def name(self) -> str:
        sizes = f"{self.m}×{self.k}ᵀ×{self.n}" if self.a_transposed else f"{self.m}×{self.k}×{self.n}"
        batch = f"{self.batch} of " if self.batch > 1 else ""
        return f"{batch}{sizes}{'ᵀ' if self.b_transposed else ''} {self.dtype}"

    @property
    def gflop(self) -> float:
        return 2e-9 * self.batch * self.m * self.k * self.n


PRODUCTS = (
    *(Product(size, size, size) for size in (128, 256, 512, 768, 1024, 2048)),
    Product(32, 128, 128),
    Product(256, 128, 256),
    Product(1024, 128, 65),
    Product(1024, 65, 128),
    Product(32, 128, 512),
    # a training step of a small GPT: forward, gradient of the input, gradient of the weight, attention
    Product(1024, 128, 384),
    Product(1024, 256, 128),
    Product(1024, 384, 128, b_transposed=True),
    Product(128, 1024, 384, a_transposed=True),
    Product(32, 32, 32, batch=128, b_transposed=True),
    Product(32, 32, 32, batch=128),
    # one token
    Product(1, 128, 384),
    Product(1, 128, 512),
    Product(4, 256, 1024),
    *(Product(size, size, size, dtype="float64") for size in (128, 512)),
)


def contenders(product: Product, threads: int) -> dict[str, Callable[[], object]]:
    """The same product by us, NumPy and, where it is installed, torch, each into a buffer that exists."""
    import numpy as np

    from engine.core.dtype import by_name
    from engine.devices.array import Array
    from engine.devices.cpu.device import CpuDevice

    rng = np.random.default_rng(0)

    def operand(rows: int, columns: int, transposed: bool) -> np.ndarray:  # type: ignore[type-arg]
        shape = (product.batch, columns, rows) if transposed else (product.batch, rows, columns)
        values = rng.standard_normal(shape).astype(product.dtype)
        values = values.swapaxes(1, 2) if transposed else values
        return values if product.batch > 1 else values[0]

    a = operand(product.m, product.k, product.a_transposed)
    b = operand(product.k, product.n, product.b_transposed)
    shape = (*a.shape[:-1], product.n)
    dtype = by_name(product.dtype)

    def ours(values: np.ndarray) -> Array:  # type: ignore[type-arg]
        order = sorted(range(values.ndim), key=lambda axis: -values.strides[axis])
        stored = values.transpose(order)
        dense = Array.from_bytes(np.ascontiguousarray(stored).tobytes(), stored.shape, dtype)
        strides = tuple(stride // values.itemsize for stride in values.strides)
        return Array(dense.storage, 0, values.shape, strides, dtype)

    result, call = CpuDevice(threads).bind("dot", (), [ours(a), ours(b)], shape, dtype)
    out = np.empty(shape, product.dtype)
    found: dict[str, Callable[[], object]] = {OURS: call, "numpy": lambda: np.matmul(a, b, out=out)}
    call()
    np.matmul(a, b, out=out)
    got = np.frombuffer(result.tobytes(), product.dtype).reshape(shape)
    if not np.allclose(got, out, rtol=1e-3, atol=1e-3):
        raise AssertionError(f"{product.name} differs from NumPy")
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(threads)
    a_torch, b_torch, out_torch = (
        torch.from_numpy(a),
        torch.from_numpy(b),
        torch.empty(shape, dtype=getattr(torch, product.dtype)),
    )
    return {**found, "torch": lambda: torch.matmul(a_torch, b_torch, out=out_torch)}


def measure(threads: int, products: tuple[Product, ...] = PRODUCTS) -> list[Row]:
    """The rows of one number of threads, in this process."""
    label = "1 thread" if threads == 1 else f"{threads} threads"
    return [
        compare(f"{p.name}, {label}", contenders(p, threads), work=p.gflop, unit="GFLOP/s") for p in products
    ]


def in_new_process(threads: int) -> list[Row]:
    """The rows of one number of threads, every library started with that number."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    command = [sys.executable, "-m", "bench.gemm", str(threads)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    text = next(line for line in done.stdout.splitlines() if line.startswith(MARK))
    rows = json.loads(text.removeprefix(MARK))
    spreads = ("seconds", "ratios")
    return [
        Row(**row | {key: {who: Spread(**values) for who, values in row[key].items()} for key in spreads})
        for row in rows
    ]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(MARK + json.dumps([asdict(row) for row in measure(int(sys.argv[1]))]))
    else:
        write("gemm", [row for threads in THREADS for row in in_new_process(threads)])
