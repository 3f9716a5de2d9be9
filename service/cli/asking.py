"""Commands that ask the same of several jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from service.cli.connect import find_job, open_client
from service.client import Client
from service.wire import Job

Command = TypeVar("Command", bound=Callable[..., Any])


def of_jobs(command: Command) -> Command:
    """Gives a command the arguments JOBS, as ``names``, and ``--json``, as ``as_json``."""
    command = click.option("--json", "as_json", is_flag=True, help="Each job as a line of JSON.")(command)
    return click.argument("names", nargs=-1, required=True, metavar="JOBS...")(command)


def ask(
    ctx: click.Context, names: Iterable[str], as_json: bool, question: Callable[[Client, str], Job]
) -> None:
    """Asks it of each job, and prints what the job is then."""
    with open_client(ctx) as client:
        for name in names:
            job = question(client, find_job(client, name))
            state = "pausing" if job["pausing"] else job["state"]
            click.echo(json.dumps(job, ensure_ascii=False) if as_json else f"{job['id']} {state}")
