"""The promises as users meet them: `gradmill up` with its usual times, a GPT on compiled kernels, kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import ROOT, check_log, children, steps_by_attempt, wait_for

from service.client import Client

pytestmark = pytest.mark.slow

TEXT = "Shall I compare thee to a summer's day?\nThou art more lovely and more temperate:\n" * 40
SPEC = {
    "model": {"name": "gpt", "embed_dim": 16, "num_heads": 2, "ff_dim": 32, "num_layers": 2, "seq_len": 16},
    "corpus": {"text": TEXT},
    "steps": 1500,
    "batch": 8,
    "schedule": "cosine",
    "clip_norm": 1.0,
    "seed": 11,
    "eval_every": 500,
    "sample_every": 500,
    "sample_tokens": 30,
    "checkpoint_every_s": 1,
}
FIRST_EVENT_WITHIN_S = 20.0


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """The whole system as `gradmill up` starts it, with the address as its attribute ``url``."""
    data = tmp_path_factory.mktemp("up")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRADMILL_")}
    environment |= {"GRADMILL_DATA_DIR": str(data), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "service.cli", "up", "--port", "0", "--json"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=ROOT) as system:
        assert system.stdout is not None
        system.url = json.loads(system.stdout.readline())["url"]  # type: ignore[attr-defined]
        yield system
        system.terminate()
        assert system.wait(30) == 0


@pytest.fixture(scope="module")
def client(up: Any) -> Iterator[Client]:
    with Client(up.url) as client:
        yield client


@pytest.fixture(scope="module")
def uninterrupted(client: Client) -> dict[str, Any]:
    job = client.wait(client.submit("train", SPEC)["id"], timeout_s=280)
    assert job["state"] == "succeeded", job["error"]
    result: dict[str, Any] = job["result"] or {}
    return result


def batch_worker(up: subprocess.Popen[str]) -> int:
    """The process of the batch lane."""

    def look() -> int | None:
        for child in children(up.pid):
            for lane in children(child):
                if "cpu-batch" in Path(f"/proc/{lane}/cmdline").read_text():
                    return lane
        return None

    return wait_for("the batch worker runs", look)


@pytest.mark.parametrize("victim", ["horse", "worker"])
def test_kill_nine_costs_neither_time_nor_a_bit(
    up: subprocess.Popen[str], client: Client, uninterrupted: dict[str, Any], victim: str
) -> None:
    job_id = client.submit("train", SPEC)["id"]
    wait_for("a checkpoint past step 20", lambda: any(c["step"] > 20 for c in client.checkpoints(job_id)))
    worker = batch_worker(up)
    pid = worker if victim == "worker" else children(worker)[0]
    os.kill(pid, signal.SIGKILL)
    killed_at = time.monotonic()
    for event in client.events(job_id, timeout_s=60):
        if event["attempt"] == 2 and event["type"] != "state":
            break
    assert time.monotonic() - killed_at < FIRST_EVENT_WITHIN_S
    job = client.wait(job_id, timeout_s=280)
    assert job["state"] == "succeeded", job["error"]
    events: list[Any] = list(client.past_events(job_id))
    check_log(events)
    assert steps_by_attempt(events)[2][0] > 20
    assert job["result"] == uninterrupted
