"""``gradmill cancel``."""

from __future__ import annotations

import click

from service.cli.asking import ask, of_jobs
from service.cli.exits import Exit
from service.client import Client
from service.wire import TERMINAL_STATES, Job


@click.command("cancel")
@of_jobs
@click.option(
    "--wait", type=click.FloatRange(0), default=10, show_default=True, help="Seconds to wait for the end."
)
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], wait: float, as_json: bool) -> int:
    """Cancel JOBS (ids, or `latest`). A job that has ended stays as it is."""
    code = Exit.OK

    def cancel(client: Client, job_id: str) -> Job:
        nonlocal code
        job = client.cancel(job_id)
        if job["state"] in TERMINAL_STATES or wait == 0:
            return job
        try:
            return client.wait(job_id, timeout_s=wait)
        except TimeoutError:
            code = Exit.TIMEOUT
            return client.get(job_id)

    ask(ctx, names, as_json, cancel)
    return code
