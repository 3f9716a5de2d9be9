"""``python -m bench``: every benchmark, each in a process of its own, then docs/performance.md."""

from __future__ import annotations

import subprocess
import sys

from bench import report

BENCHMARKS = (
    "gemm",
    "math",
    "memory",
    "dispatch",
    "plan",
    "train_step",
    "makemore",
    "sample",
    "paths",
    "pricing",
)

for benchmark in sys.argv[1:] or BENCHMARKS:
    subprocess.run([sys.executable, "-m", f"bench.{benchmark}"], check=True)
report.main()
