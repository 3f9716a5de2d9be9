"""``gradmill pause``."""

from __future__ import annotations

import click

from service.cli.asking import ask, of_jobs
from service.client import Client


@click.command("pause")
@of_jobs
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Ask JOBS (ids, or `latest`) to checkpoint and wait; `gradmill resume` lets them go on."""
    ask(ctx, names, as_json, Client.pause)
