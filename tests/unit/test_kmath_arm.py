"""The elementary functions have the same bits in the NEON lanes of an ARM processor, which qemu emulates."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from native_build import NATIVE
from native_math import FUNCTIONS, LANES, TEXT, Array, apply, bits, every_exponent

COUNT = 4096
MAIN = f"""
#include <stdio.h>
#define READ(T, lane) static T a_##lane[{COUNT}], b_##lane[{COUNT}], out_##lane[{COUNT}];
{"".join(f"READ({scalar}, {lane})" for lane, (scalar, _, _) in LANES.items())}
int main(void) {{
    size_t done = 0;
#define FILL(lane) \\
    done += fread(a_##lane, sizeof a_##lane, 1, stdin); \\
    done += fread(b_##lane, sizeof b_##lane, 1, stdin);
    {" ".join(f"FILL({lane})" for lane in LANES)}
#define RUN(name, lane) \\
    name##_##lane(a_##lane, b_##lane, out_##lane, {COUNT}); \\
    done += fwrite(out_##lane, sizeof out_##lane, 1, stdout);
    {" ".join(f"RUN({name}, {lane})" for name, lane, _ in FUNCTIONS)}
    return done != {2 * len(LANES) + len(FUNCTIONS)};
}}
"""


def operands(lane: str) -> Array:
    """Two rows of operands: half of any bits, half near one."""
    dtype, rng = LANES[lane][2], np.random.default_rng(30)
    if lane in ("f32", "f64"):
        anything = rng.permutation(every_exponent(dtype, 8 if lane == "f32" else 1))[: COUNT // 2]
        row = np.concatenate([anything, rng.normal(0, 3, COUNT // 2).astype(dtype)])
        return np.stack([row, row[::-1]])
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, (2, COUNT), dtype=dtype, endpoint=True)


@pytest.mark.slow
@pytest.mark.skipif(
    not importlib.util.find_spec("ziglang"), reason="needs the ziglang wheel to build for ARM"
)
def test_neon_lanes_give_the_same_bits(tmp_path: Path) -> None:
    source, program = tmp_path / "arm.c", tmp_path / "arm"
    source.write_text(TEXT + MAIN)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-static", "-O1"]
    command += ["-std=gnu11", "-ffp-contract=off", "-fno-trapping-math", "-fwrapv", f"-I{NATIVE}"]
    subprocess.run([*command, str(source), "-o", str(program)], check=True)
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if emulator is None:
        pytest.skip("compiled; running it needs qemu-aarch64")
    inputs = {lane: operands(lane) for lane in LANES}
    done = subprocess.run(
        [emulator, str(program)],
        input=b"".join(pair.tobytes() for pair in inputs.values()),
        stdout=subprocess.PIPE,
        check=True,
    )
    at = 0
    for name, lane, arity in FUNCTIONS:
        dtype = np.dtype(LANES[lane][2])
        got = np.frombuffer(done.stdout, dtype, COUNT, at)
        at += COUNT * dtype.itemsize
        expected = apply(name, *inputs[lane][:arity])
        np.testing.assert_array_equal(bits(got), bits(expected), err_msg=f"{name}_{lane}")
