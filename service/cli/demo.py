"""``gradmill demo``: what ``make run`` shows.

Starts a system of its own, trains a small GPT on Shakespeare through it, and lets the published model speak.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from service.cli.exits import BY_STATE, Exit
from service.cli.follow import choose_display, indent, show_events
from service.cli.running import DataFolderError, make_folder
from service.client import Client
from service.processes import dying_with_parent
from service.wire import Job

DATA = Path(".data/run")
ALIAS = "shakespeare"
LONGEST_RUN_S = 3600.0
STOP_WITHIN_S = 30.0
SAMPLE_CHARACTERS = 500
SEED = 42


@dataclass(frozen=True)
class Size:
    """A training job that fits a device: its steps by default, and the parts of its spec."""

    steps: int
    batch: int
    model: dict[str, Any]
    training: dict[str, Any]


# Measured on two cores: about 90 seconds each.
COMPILED = Size(
    steps=1000,
    batch=32,
    model={
        "name": "gpt",
        "embed_dim": 128,
        "num_heads": 4,
        "ff_dim": 256,
        "num_layers": 4,
        "seq_len": 32,
    },
    training={"lr": 2e-3, "schedule": "cosine", "warmup_steps": 50, "clip_norm": 1.0},
)
PURE_PYTHON = Size(
    steps=300,
    batch=4,
    model={"name": "bigram", "seq_len": 8},
    training={"lr": 0.05, "optimizer": "adam"},
)


@click.command("demo")
@click.option(
    "--steps", envvar="RUN_STEPS", type=click.IntRange(1), help="Training steps, also as RUN_STEPS."
)
def command(steps: int | None) -> int:
    """Train on Shakespeare on a system of its own, and show the result."""
    named = os.environ.get("GRADMILL_DATA_DIR")
    data = Path(named) / "demo" if named else DATA  # never the folder of a system that `up` runs
    with system_on(data) as url, Client(url) as client:
        click.echo(f"dashboard: {url}")
        for left in client.jobs(state="queued,running,paused"):
            client.cancel(left["id"])
            click.echo(f"{left['id']}, which an earlier run left unfinished, is cancelled")
        job = client.submit("train", demo_spec(steps), name="Shakespeare")
        click.echo(f"this job:  {url}/jobs/{job['id']}\n")
        show_events(
            client.events(job["id"], timeout_s=LONGEST_RUN_S), choose_display(job["kind"], False), job["id"]
        )
        job = client.get(job["id"])
        if job["state"] != "succeeded":
            click.echo(f"error: {job['id']} {job['state']}: {job['error']}", err=True)
            return BY_STATE[job["state"]]
        present(client, job)
    program = os.path.relpath(sys.argv[0]) if Path(sys.argv[0]).name == "gradmill" else "gradmill"
    click.echo("\nThe system is stopped. To go on with what it learned:")
    click.echo(f"    GRADMILL_DATA_DIR={data} {program} up")
    return Exit.OK


def demo_spec(steps: int | None) -> dict[str, Any]:
    """The train spec for the best device of this machine."""
    size = COMPILED if has_compiler() else PURE_PYTHON
    if size is PURE_PYTHON:
        click.echo(
            "note: no C compiler was found, so a tiny model is trained in pure Python. For the real one:"
            " pip install ziglang, or install gcc or clang.\n"
        )
    count = steps or size.steps
    return {
        "model": size.model,
        "corpus": {"name": "shakespeare"},
        "steps": count,
        "batch": size.batch,
        "seed": SEED,
        "eval_every": max(1, count // 8),
        "sample_every": max(1, count // 4),
        "sample_tokens": 200,
        "prompts": ["\n"],
        "publish_as": ALIAS,
        **size.training,
    }


def has_compiler() -> bool:
    """Whether the cpu device works here; asked of another process, which loads the engine."""
    asked = [sys.executable, "-m", "workers.devices", "--json"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise click.ClickException(answer.stderr.strip().removeprefix("error: "))
    return any(row["name"] == "cpu" and row["available"] for row in json.loads(answer.stdout))


@contextlib.contextmanager
def system_on(data: Path) -> Iterator[str]:
    """`gradmill up` on a free port as a process of its own; its address. It is stopped at the end."""
    environment = {**os.environ, "GRADMILL_DATA_DIR": str(data)}
    command_line = [sys.executable, "-m", "service.cli", "up", "--port", "0", "--json"]
    try:
        make_folder(data)
    except DataFolderError as error:
        raise click.ClickException(str(error)) from error
    log = data / "system.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command_line,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            process_group=0,
            preexec_fn=dying_with_parent(signal.SIGTERM),  # noqa: PLW1509  (this process has one thread)
        ) as system,
    ):
        assert system.stdout is not None
        try:
            first_line = system.stdout.readline()
            if not first_line:
                raise click.ClickException(f"the system on {data} did not start:\n{log.read_text().strip()}")
            yield json.loads(first_line)["url"]
        finally:
            system.terminate()
            try:
                system.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                system.kill()


def present(client: Client, job: Job) -> None:
    """The loss, a long sample, and the model behind the command and behind the API."""
    result = job["result"] or {}
    click.echo(
        f"\nmean validation loss over 100 fixed held-out windows: {result['val_loss']:.4f}"
        f" (step {result['step']}, seed {job['spec']['seed']})\n"
    )
    model: str = result["model"]
    text = client.complete(model, "\n", max_tokens=SAMPLE_CHARACTERS, seed=SEED, temperature=0.8)
    click.echo(f"{SAMPLE_CHARACTERS} characters from the model:\n{indent(text['choices'][0]['text'])}\n")
    arguments = ["sample", ALIAS, "--prompt", "ROMEO:", "--max-tokens", "80", "--seed", "1"]
    click.echo(f"$ gradmill {' '.join(arguments)}")
    line = [sys.executable, "-m", "service.cli", "--url", client.url, *arguments]
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    click.echo(f"{indent(said)}\n")
    options: dict[str, Any] = {"max_tokens": 40, "seed": 1}
    body = {"model": ALIAS, "prompt": "JULIET:", **options}
    click.echo(f"POST {client.url}/v1/completions {json.dumps(body)}")
    answer = client.complete(ALIAS, "JULIET:", **options)
    click.echo(indent(json.dumps(answer["choices"][0])))
