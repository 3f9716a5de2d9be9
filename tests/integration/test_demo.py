"""The demo from nothing to a published model, on the pure-Python device so that it is short."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from cluster import ROOT


def test_the_demo_trains_publishes_and_lets_the_model_speak(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "GRADMILL_CC": "none",
        "GRADMILL_DATA_DIR": str(tmp_path),
        "RUN_STEPS": "8",
        "PYTHONPATH": str(ROOT),
    }
    environment.pop("GRADMILL_URL", None)
    command = [sys.executable, "-m", "service.cli", "demo"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert re.search(r"^dashboard: http://127\.0\.0\.1:\d+$", said, re.M)
    assert "no C compiler was found" in said
    assert re.search(r"step 8/8 · loss \d\.\d+ · validation \d\.\d+", said)
    loss = re.search(r"over 100 fixed held-out windows: (\d\.\d{4}) \(step 8, seed 42\)", said)
    assert loss is not None
    assert 0 < float(loss[1]) < 6
    assert "500 characters from the model:" in said
    assert "$ gradmill sample shakespeare" in said
    assert '"finish_reason": "length"' in said
    assert "gradmill up" in said
    assert not (tmp_path / "demo" / "run.json").exists()
    assert (tmp_path / "demo" / "redis" / "SERVER").exists()
