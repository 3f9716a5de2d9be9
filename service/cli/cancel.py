"""``gradmill cancel``."""

from __future__ import annotations

import json

import click

from service.cli.connect import find_job, open_client
from service.cli.exits import Exit
from service.wire import TERMINAL_STATES


@click.command("cancel")
@click.argument("jobs", nargs=-1, required=True)
@click.option(
    "--wait", type=click.FloatRange(0), default=10, show_default=True, help="Seconds to wait for the end."
)
@click.option("--json", "as_json", is_flag=True, help="Each job as a line of JSON.")
@click.pass_context
def command(ctx: click.Context, jobs: tuple[str, ...], wait: float, as_json: bool) -> int:
    """Cancel JOBS (ids, or `latest`). A job that has ended stays as it is."""
    code = Exit.OK
    with open_client(ctx) as client:
        for name in jobs:
            job = client.cancel(find_job(client, name))
            if job["state"] not in TERMINAL_STATES and wait > 0:
                try:
                    job = client.wait(job["id"], timeout_s=wait)
                except TimeoutError:
                    job = client.get(job["id"])
                    code = Exit.TIMEOUT
            click.echo(json.dumps(job, ensure_ascii=False) if as_json else f"{job['id']} {job['state']}")
    return code
