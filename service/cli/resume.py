"""``gradmill resume``."""

from __future__ import annotations

import click

from service.cli.asking import ask, of_jobs
from service.client import Client


@click.command("resume")
@of_jobs
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Queue paused JOBS (ids, or `latest`) again; they go on from their last checkpoint."""
    ask(ctx, names, as_json, Client.resume)
