"""The elementary functions beside NumPy and torch, on one thread: ``python -m bench.math``.

Arrays fit the second-level cache, so that arithmetic is measured and not memory. Our numbers are those of the
device's kernel, the one that eager tensors use, on a result buffer that exists; the peers get one too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.pairing import OURS, Row, compare, write

COUNT = 1 << 16
UNIT = "M elements/s"


@dataclass(frozen=True, slots=True)
class Function:
    """One primitive on random operands of a range that its users have; what the peers call it."""

    op: str
    low: float
    high: float
    numpy: str | None
    torch: str | None
    operands: int = 1


FUNCTIONS = (
    Function("exp", -10, 10, "exp", "exp"),
    Function("expm1", -3, 3, "expm1", "expm1"),
    Function("log", 1e-3, 10, "log", "log"),
    Function("log1p", -0.5, 10, "log1p", "log1p"),
    Function("sin", -10, 10, "sin", "sin"),
    Function("cos", -10, 10, "cos", "cos"),
    Function("tanh", -4, 4, "tanh", "tanh"),
    Function("erf", -3, 3, None, "erf"),
    Function("pow", 0.1, 4, "power", "pow", operands=2),
    Function("atan2", -3, 3, "arctan2", "atan2", operands=2),
    Function("mod", 0.1, 10, "remainder", "remainder", operands=2),
    Function("sqrt", 0, 10, "sqrt", "sqrt"),
    Function("max", -1, 1, "maximum", "maximum", operands=2),
)


def contenders(function: Function, dtype: str) -> dict[str, Callable[[], object]]:
    """The same function by us, NumPy and, where it is installed, torch, each into a buffer that exists."""
    import numpy as np

    from engine.core.dtype import by_name
    from engine.devices.array import Array
    from engine.devices.cpu.device import CpuDevice

    rng = np.random.default_rng(0)
    operands = [
        rng.uniform(function.low, function.high, COUNT).astype(dtype) for _ in range(function.operands)
    ]
    inputs = [Array.from_bytes(x.tobytes(), x.shape, by_name(dtype)) for x in operands]
    result, call = CpuDevice(1).bind(function.op, (), inputs, (COUNT,), by_name(dtype))
    call()
    found: dict[str, Callable[[], object]] = {OURS: call}
    if function.numpy:
        ufunc, out = getattr(np, function.numpy), np.empty(COUNT, dtype)
        found["numpy"] = lambda: ufunc(*operands, out=out)
        ufunc(*operands, out=out)
        got = np.frombuffer(result.tobytes(), dtype)
        if not np.allclose(got, out, rtol=1e-5, atol=1e-6):
            raise AssertionError(f"{function.op} differs from NumPy")
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(1)
    tensors = [torch.from_numpy(x) for x in operands]
    peer, place = getattr(torch, str(function.torch)), torch.empty(COUNT, dtype=getattr(torch, dtype))
    return {**found, "torch": lambda: peer(*tensors, out=place)}


def random_bits() -> dict[str, Callable[[], object]]:
    """Uniform 32-bit words by us, by NumPy's own Philox generator and by torch."""
    import numpy as np

    from engine.core.dtype import uint32
    from engine.devices.array import Array
    from engine.devices.cpu.device import CpuDevice

    key = Array.from_list([1, 2], (2,), uint32)
    ordinal = Array.from_list([0], (), uint32)
    _, call = CpuDevice(1).bind("random_bits", ((COUNT,),), [key, ordinal, ordinal], (COUNT,), uint32)
    generator = np.random.Generator(np.random.Philox(1))
    found: dict[str, Callable[[], object]] = {
        OURS: call,
        "numpy": lambda: generator.integers(0, 2**32, COUNT, dtype=np.uint32),
    }
    try:
        import torch
    except ImportError:
        return found
    place = torch.empty(COUNT, dtype=torch.int32)
    return {**found, "torch": place.random_}


def measure() -> list[Row]:
    """Every function in both float types; NumPy's run on one thread anyway, torch is told to."""
    jobs: list[tuple[str, dict[str, Callable[[], object]]]] = [
        (f"{function.op} {dtype}", contenders(function, dtype))
        for function in FUNCTIONS
        for dtype in ("float32", "float64")
    ]
    jobs.append(("random_bits", random_bits()))
    return [compare(name, calls, work=COUNT * 1e-6, unit=UNIT) for name, calls in jobs]


if __name__ == "__main__":
    write("math", measure())
