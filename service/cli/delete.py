"""``gradmill delete``."""

from __future__ import annotations

import click

from service.cli.connect import find_job, open_client


@click.command("delete")
@click.argument("jobs", nargs=-1, required=True)
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...]) -> None:
    """Delete JOBS (ids, or `latest`) that have ended, with their logs and checkpoints. Models stay."""
    with open_client(ctx) as client:
        for name in jobs:
            job_id = find_job(client, name)
            client.delete(job_id)
            click.echo(f"{job_id} deleted")
