"""The demo from nothing to a published model, on the pure-Python device so that it is short."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from cluster import ROOT

COMMAND = [sys.executable, "-m", "service.cli", "demo"]


def environment_of(data: Path, steps: int) -> dict[str, str]:
    environment = {
        **os.environ,
        "GRADMILL_CC": "none",
        "GRADMILL_DATA_DIR": str(data),
        "RUN_STEPS": str(steps),
        "PYTHONPATH": str(ROOT),
    }
    environment.pop("GRADMILL_URL", None)
    return environment


def demo(data: Path, steps: int) -> subprocess.CompletedProcess[str]:
    environment = environment_of(data, steps)
    return subprocess.run(
        COMMAND, env=environment, capture_output=True, text=True, timeout=240, cwd=data, check=False
    )


def test_a_demo_does_not_wait_for_what_an_interrupted_one_left(tmp_path: Path) -> None:
    with subprocess.Popen(
        COMMAND,
        env=environment_of(tmp_path, 1_000_000),
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as first:
        assert first.stdout is not None
        job = next(line for line in first.stdout if line.startswith("this job:")).strip().rpartition("/")[2]
        first.send_signal(signal.SIGINT)
        first.stdout.read()
    done = demo(tmp_path, 2)
    assert done.returncode == 0, done.stderr
    assert f"{job}, which an earlier run left unfinished, is cancelled" in done.stdout
    assert "(step 2, seed 42)" in done.stdout


def test_the_demo_trains_publishes_and_lets_the_model_speak(tmp_path: Path) -> None:
    done = demo(tmp_path, 8)
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
