"""``gradmill retry``."""

from __future__ import annotations

import json

import click

from service.cli.connect import find_job, open_client
from service.cli.exits import Exit
from service.cli.follow import follow


@click.command("retry")
@click.argument("job")
@click.option("--detach", is_flag=True, help="Print the new job's id and leave.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@click.pass_context
def command(ctx: click.Context, job: str, detach: bool, as_json: bool) -> int:
    """Go on with JOB, which failed or was cancelled, as a new job.

    It starts from JOB's last whole checkpoint, or from the beginning where there is none.
    """
    with open_client(ctx) as client:
        new = client.retry(find_job(client, job))
        if detach:
            click.echo(json.dumps(new, ensure_ascii=False) if as_json else new["id"])
            return Exit.OK
        click.echo(f"{new['id']} retries {new.get('retry_of')}", err=True)
        return follow(client, new["id"], as_json=as_json)
