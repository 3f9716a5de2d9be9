"""``gradmill pause``."""

from __future__ import annotations

import json

import click

from service.cli.connect import find_job, open_client


@click.command("pause")
@click.argument("jobs", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Each job as a line of JSON.")
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], as_json: bool) -> None:
    """Ask JOBS (ids, or `latest`) to checkpoint and wait; `gradmill resume` lets them go on."""
    with open_client(ctx) as client:
        for name in jobs:
            job = client.pause(find_job(client, name))
            state = "pausing" if job["pausing"] else job["state"]
            click.echo(json.dumps(job, ensure_ascii=False) if as_json else f"{job['id']} {state}")
