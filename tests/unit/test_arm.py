"""The engine on an ARM processor, which qemu emulates: compiled plans have the bits that they have here."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from golden import GOLDEN, digests

from engine.devices.cpu import CpuDevice
from engine.devices.device import current_device

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not isinstance(current_device(), CpuDevice), reason="plans need a C compiler")
@pytest.mark.skipif(
    "GRADMILL_ARM" not in os.environ,
    reason="GRADMILL_ARM names no folder; python tests/arm.py FOLDER makes one",
)
def test_plans_have_the_same_bits_on_arm() -> None:
    python = Path(os.environ["GRADMILL_ARM"]) / "python"
    done = subprocess.run(
        [python, ROOT / "tests" / "golden.py"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "No C compiler" not in done.stderr
    there = json.loads(done.stdout)
    assert there == digests()
    assert {name: there[name] for name in GOLDEN} == GOLDEN
