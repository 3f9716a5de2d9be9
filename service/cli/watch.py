"""``gradmill watch``."""

from __future__ import annotations

import click

from service.cli.connect import find_job, open_client
from service.cli.follow import follow


@click.command("watch")
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="Each event as a line of JSON.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only events after this number.")
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), help="Stop watching after so many seconds."
)
@click.pass_context
def command(ctx: click.Context, job: str, as_json: bool, after: int, timeout: float | None) -> int:
    """Follow JOB (an id, or `latest`) until it ends; the exit code says how."""
    with open_client(ctx) as client:
        job_id = find_job(client, job)
        return follow(client, job_id, as_json=as_json, after=after, timeout_s=timeout)
