"""A whole training through the service: ``python -m bench.headline TEXT [--write]``.

Submits a job that trains the 550,977-parameter GPT on a text (tinyshakespeare is meant) for 33,113 steps of 8
windows of 32 characters, Adam at 2e-3 falling along a cosine, and waits for it, as a person would.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.figures import Figure, store
from service.cli.demo import system_on
from service.client import Client

STEPS = 33_113
AVERAGED = 1000  # the last steps
SAMPLED = (1000, 2000, 3000, STEPS)
LONGEST_S = 3600.0
SPEC: dict[str, Any] = {
    "model": {
        "name": "gpt",
        "embed_dim": 128,
        "num_heads": 4,
        "ff_dim": 256,
        "num_layers": 4,
        "seq_len": 32,
    },
    "steps": STEPS,
    "batch": 8,
    "optimizer": "adam",
    "lr": 2e-3,
    "schedule": "cosine",
    "warmup_steps": 100,
    "eval_every": 1000,
    "sample_every": 1000,
    "sample_tokens": 300,
    "prompts": ["\n"],
}


def train(client: Client, text: Path) -> tuple[list[Figure], dict[int, str]]:
    """What came of the job, and its samples by step."""
    corpus = {"file": client.upload(text)["id"]}
    began = time.perf_counter()
    job = client.submit("train", {**SPEC, "corpus": corpus})
    samples: dict[int, str] = {}
    for event in client.events(job["id"], timeout_s=LONGEST_S):
        if event["type"] == "sample" and event["data"]["step"] in SAMPLED:
            samples[event["data"]["step"]] = event["data"]["text"]
    seconds = time.perf_counter() - began
    job = client.get(job["id"])
    if job["state"] != "succeeded" or job["result"] is None:
        raise SystemExit(f"the job {job['state']}: {job['error']}")
    last = client.metrics(job["id"], ["loss"], from_step=STEPS - AVERAGED + 1, points=2 * AVERAGED)
    losses = [value for value in last["loss"]["values"] if value is not None]
    assert len(losses) == AVERAGED
    return [
        Figure("from the request to the end of the job", seconds, "s", 210),
        Figure("a step, with evaluations, samples and checkpoints", 1e3 * seconds / STEPS, "ms"),
        Figure(f"training loss, mean of the last {AVERAGED:,} steps", fmean(losses), "nats", 1.45),
        Figure("validation loss, mean over 100 windows", job["result"]["val_loss"], "nats"),
    ], samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--write", action="store_true", help="store the figures")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        system_on(Path(folder) / "data") as url,
        Client(url) as client,
    ):
        figures, samples = train(client, given.text)
    for step, said in samples.items():
        print(f"step {step:,}:\n{said}\n")
    for figure in figures:
        print(figure)
    if given.write:
        store("headline", figures)


if __name__ == "__main__":
    main()
