"""``gradmill logs``."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator

import click

from service.cli.connect import find_job, open_client
from service.client import Client
from service.lines import LINES, line
from service.wire import Event


@click.command("logs")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--tail", type=click.IntRange(0), help="Only the last so many lines so far.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only events after this number.")
@click.option("--json", "as_json", is_flag=True, help="Each event as a line of JSON.")
@click.pass_context
def command(
    ctx: click.Context, job: str, *, follow: bool, tail: int | None, after: int, as_json: bool
) -> None:
    """Print what JOB (an id, or `latest`) said: states, stages, logs and checkpoints."""
    with open_client(ctx) as client:
        for event in wanted(client, find_job(client, job), follow, tail, after):
            click.echo(json.dumps(event, ensure_ascii=False) if as_json else line(event))


def wanted(client: Client, job_id: str, follow: bool, tail: int | None, after: int) -> Iterator[Event]:
    """The events to print; with ``follow``, those that come join those that are there without a gap."""
    last = after
    past: deque[Event] = deque(maxlen=tail)
    for event in client.past_events(job_id, after=after):
        last = event["seq"]
        if event["type"] in LINES:
            past.append(event)
    yield from past
    if follow:
        yield from (event for event in client.events(job_id, after=last) if event["type"] in LINES)
