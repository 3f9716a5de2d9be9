"""What all commands that submit a job share: options of the job itself, and following it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from service.cli.exits import Exit
from service.cli.follow import follow
from service.cli.options import Command
from service.cli.text import duration
from service.client import Client

_OPTIONS = (
    click.option("--name", help="A name for the job."),
    click.option("--priority", type=int, help="Higher is served first."),
    click.option("--timeout-s", type=int, help="Most seconds the job may run."),
    click.option("--max-attempts", type=int, help="How often it is tried when workers get lost."),
    click.option("--idempotency-key", help="Sent twice with the same key, the job is made once."),
    click.option("--dry-run", is_flag=True, help="Print the whole spec and its estimate; queue nothing."),
    click.option("--detach", is_flag=True, help="Print the job's id and leave."),
    click.option("--json", "as_json", is_flag=True, help="JSON instead of text."),
)
_OF_THE_JOB = ("name", "priority", "timeout_s", "max_attempts", "idempotency_key")


@dataclass(frozen=True)
class Submission:
    """How a job is submitted: what the options of ``submission_options`` said."""

    job: Mapping[str, Any]
    dry_run: bool
    detach: bool
    as_json: bool

    @staticmethod
    def taken_from(given: dict[str, Any]) -> Submission:
        """Takes the options out of what a command was given."""
        job = {name: given.pop(name) for name in _OF_THE_JOB}
        return Submission(job, given.pop("dry_run"), given.pop("detach"), given.pop("as_json"))

    def send(self, client: Client, kind: str, spec: Mapping[str, Any]) -> int:
        """Submits the job and follows it, or does what the options ask for instead; the exit code."""
        if self.dry_run:
            answer = client.estimate(kind, spec)
            click.echo(json.dumps(answer, ensure_ascii=False))
            click.echo(f"about {duration(answer['estimate']['seconds'])} on a small machine", err=True)
            return Exit.OK
        job = client.submit(kind, spec, **self.job)
        if self.detach:
            click.echo(json.dumps(job, ensure_ascii=False) if self.as_json else job["id"])
            return Exit.OK
        click.echo(f"{job['id']}: {client.url}/jobs/{job['id']}", err=True)
        return follow(client, job["id"], as_json=self.as_json)


def submission_options(command: Command) -> Command:
    """Adds the options that a Submission is made of."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
