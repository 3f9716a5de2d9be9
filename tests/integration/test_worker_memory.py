"""A job that wants more memory than its worker may have fails, says so, and harms nobody else."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster

from service.client import Client
from service.jobs.lanes import BATCH, LANES, QUICK
from workers.memory import default_bound

GIBIBYTE = 2**30
TEXT = "To be, or not to be, that is the question.\n" * 500
GPT = {"name": "gpt", "embed_dim": 128, "num_heads": 4, "ff_dim": 256, "num_layers": 4, "seq_len": 32}
TRAIN: dict[str, Any] = {"model": GPT, "corpus": {"text": TEXT}, "steps": 3, "batch": 32, "clip_norm": 1.0}
COMPILE: dict[str, Any] = {
    "expression": "softmax(a @ b)",
    "inputs": {name: {"shape": [128, 128]} for name in "ab"},
    "repeats": 1,
}
CALL = {"instrument": "european", "type": "call", "S": 100, "K": 100, "T": 1, "r": 0.05, "vol": 0.2}
PRICE: dict[str, Any] = {"contract": {**CALL, "mc": {"paths": 100_000}}}


@pytest.fixture(scope="module")
def system(start_system: Callable[..., Cluster]) -> Cluster:
    """With workers of one GiB."""
    return start_system(*LANES, GRADMILL_WORKER_MEMORY=str(GIBIBYTE))


@pytest.mark.parametrize("kind, spec", [("train", TRAIN), ("compile", COMPILE), ("price", PRICE)])
def test_usual_jobs_need_less(client: Client, kind: str, spec: dict[str, Any]) -> None:
    job = client.wait(client.submit(kind, spec)["id"], timeout_s=120)
    assert job["state"] == "succeeded", job["error"]


HUGE = {
    "train": {**TRAIN, "model": {**GPT, "seq_len": 512}, "batch": 64},
    "compile": {
        **COMPILE,
        "expression": "softmax(a + b)",
        "inputs": {name: {"shape": [7_500, 7_500]} for name in "ab"},
    },
}


@pytest.mark.parametrize("kind, spec", HUGE.items(), ids=HUGE)
def test_a_job_that_wants_more_says_so(client: Client, kind: str, spec: dict[str, Any]) -> None:
    job = client.wait(client.submit(kind, spec)["id"], timeout_s=120)
    assert (job["state"], (job["error"] or {}).get("code")) == ("failed", "out-of-memory"), job["error"]
    assert len(job["attempts"]) == 1  # another would want as much


@pytest.mark.parametrize("lane", [BATCH, QUICK])
def test_without_a_setting_the_machine_is_the_bound(cluster: Cluster, lane: str) -> None:
    worker = cluster.start_toy(lane)
    cluster.wait_state(cluster.toy(lane=lane), "succeeded")
    limits = Path(f"/proc/{worker.pid}/limits").read_text()
    found = re.search(r"^Max data size +(\d+) +(\d+)", limits, re.MULTILINE)
    assert found is not None
    assert [int(bound) for bound in found.groups()] == [default_bound()] * 2
