"""Following a job: what its events add up to, and printing that as lines or as a live display."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import click

from service.cli.exits import BY_STATE, Exit
from service.cli.text import clean, duration
from service.client import Client
from service.wire import TERMINAL_STATES, Event

LINE_EVERY_S = 10.0
LOSSES_KEPT = 8192  # enough for a curve of one line


@dataclass
class Picture:
    """What is known of a job so far."""

    job: str = ""
    state: str = "queued"
    reason: str = ""
    worker: str = ""
    stage: str = ""
    step: int = 0
    steps: int = 0
    eta_s: float | None = None
    attempt: int = 0
    values: dict[str, float] = field(default_factory=dict)
    value_steps: dict[str, int] = field(default_factory=dict)
    losses: list[tuple[int, float]] = field(default_factory=list)
    nonfinite: str = ""
    sample: dict[str, Any] | None = None
    error: str = ""

    def take(self, event: Event) -> None:
        """Brings the picture up to date."""
        self.attempt = max(self.attempt, event["attempt"])
        if (take := TAKES.get(event["type"])) is not None:
            take(self, event["data"])

    def _take_state(self, data: dict[str, Any]) -> None:
        self.state, self.reason = data["state"], data.get("reason") or ""
        self.worker = data.get("worker") or ""
        if data.get("code"):
            self.error = f"{data['code']}: {data.get('message', '')}"

    def _take_progress(self, data: dict[str, Any]) -> None:
        self.step, self.steps, self.eta_s = data["step"], data["steps"], data.get("eta_s")

    def _take_metric(self, data: dict[str, Any]) -> None:
        steps = data["steps"]
        for name, column in data["values"].items():
            present = [(step, value) for step, value in zip(steps, column, strict=True) if value is not None]
            if present:
                self.value_steps[name], self.values[name] = present[-1]
            if name == "loss" and present:
                while self.losses and self.losses[-1][0] >= present[0][0]:  # lost steps come once more
                    self.losses.pop()
                self.losses += present
                if len(self.losses) > LOSSES_KEPT:
                    self.losses = self.losses[::2]
        for name in data.get("nonfinite", ()):
            self.nonfinite = self.nonfinite or f"{name} is not finite from about step {steps[0]}"

    def _take_sample(self, data: dict[str, Any]) -> None:
        self.sample = data

    def _take_stage(self, data: dict[str, Any]) -> None:
        self.stage = data["name"] if data.get("state") != "ended" else ""


TAKES = {
    "state": Picture._take_state,
    "progress": Picture._take_progress,
    "metric": Picture._take_metric,
    "sample": Picture._take_sample,
    "stage": Picture._take_stage,
}


class Display(Protocol):
    """Shows a picture as it changes."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *error: object) -> None: ...

    def show(self, picture: Picture, event: Event) -> None: ...


class Lines:
    """Plain lines on stdout: states, samples and errors when they come, progress every ten seconds."""

    def __init__(self) -> None:
        self._last_line = -math.inf
        self._said_steps = -1

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, picture: Picture, event: Event) -> None:
        kind, data = event["type"], event["data"]
        if kind == "state":
            self._progress(picture)
            click.echo(state_line(picture))
        elif kind == "sample":
            click.echo(f"sample at step {data['step']}:\n{indent(data['text'])}")
        elif kind == "log":
            click.echo(f"{data['level']}: {clean(data['message'])}")
        elif kind in ("metric", "progress") and time.monotonic() - self._last_line >= LINE_EVERY_S:
            self._progress(picture)

    def _progress(self, picture: Picture) -> None:
        if picture.step > 0 and picture.step != self._said_steps:
            click.echo(progress_line(picture))
            self._last_line, self._said_steps = time.monotonic(), picture.step


class Ndjson:
    """Every event as one line of JSON."""

    def __enter__(self) -> Ndjson:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, picture: Picture, event: Event) -> None:
        click.echo(json.dumps(event, ensure_ascii=False))


def state_line(picture: Picture) -> str:
    if picture.state == "running" and picture.reason == "pausing":
        return "pausing at its next checkpoint"
    parts = [picture.state]
    if picture.worker:
        parts.append(f"on {clean(picture.worker)}, attempt {picture.attempt}")
    if picture.error and picture.state == "failed":
        parts.append(clean(picture.error))
    elif picture.state == "paused":
        parts.append(f"`gradmill resume {picture.job}` lets it go on")
    elif picture.reason:
        parts.append(f"after {clean(picture.reason)}")
    return " · ".join(parts)


def progress_line(picture: Picture) -> str:
    parts = [f"step {picture.step}/{picture.steps}"]
    names = {"loss": "loss {:.4f}", "val_loss": "validation {:.4f}", "tokens_per_s": "{:,.0f} tokens/s"}
    for name, form in names.items():
        if name in picture.values:
            of_step = picture.value_steps[name]
            is_old = name == "val_loss" and of_step != picture.step
            parts.append(form.format(picture.values[name]) + (f" (step {of_step})" if is_old else ""))
    if picture.eta_s is not None and picture.state == "running":
        parts.append(f"{duration(picture.eta_s)} left")
    if picture.nonfinite:
        parts.append(picture.nonfinite)
    return " · ".join(parts)


def indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in clean(text, lines=True).splitlines())


def choose_display(kind: str, as_json: bool) -> Display:
    """NDJSON when asked for; what belongs to the kind; the live display on a terminal; else lines."""
    if as_json:
        return Ndjson()
    if kind == "compile":
        from service.cli.stages import Stages

        return Stages()
    if kind == "price":
        from service.cli.prices import Prices

        return Prices()
    if sys.stderr.isatty() and sys.stdout.isatty():
        from service.cli.live import Live  # rich is slow to import

        return Live()
    return Lines()


def follow(
    client: Client, job_id: str, *, as_json: bool = False, after: int = 0, timeout_s: float | None = None
) -> Exit:
    """Shows a job until it ends; the exit code of its last state. Ctrl-C detaches and lets the job go on."""
    kind = client.get(job_id)["kind"]  # a wrong id or an absent server is said at once
    try:
        picture = show_events(
            client.events(job_id, after=after, timeout_s=timeout_s), choose_display(kind, as_json), job_id
        )
    except KeyboardInterrupt:
        click.echo(f"\ndetached: the job goes on; `gradmill cancel {job_id}` ends it", err=True)
        return Exit.DETACHED
    state = picture.state if picture.state in TERMINAL_STATES else client.get(job_id)["state"]
    return BY_STATE.get(state, Exit.OK)


def show_events(events: Iterable[Event], display: Display, job_id: str) -> Picture:
    """Shows a job's events as they come; the picture at their end."""
    picture = Picture(job_id)
    with display:
        for event in events:
            picture.take(event)
            display.show(picture, event)
    return picture
