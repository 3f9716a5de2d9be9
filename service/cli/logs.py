"""``gradmill logs``."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator

import click

from service.cli.connect import find_job, open_client
from service.cli.text import clean
from service.client import Client
from service.wire import Event


@click.command("logs")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--tail", type=click.IntRange(0), help="Only the last so many lines so far.")
@click.option("--json", "as_json", is_flag=True, help="Each event as a line of JSON.")
@click.pass_context
def command(ctx: click.Context, job: str, follow: bool, tail: int | None, as_json: bool) -> None:
    """Print what JOB (an id, or `latest`) said: states, stages, logs and checkpoints."""
    with open_client(ctx) as client:
        for event in wanted(client, find_job(client, job), follow, tail):
            click.echo(json.dumps(event, ensure_ascii=False) if as_json else line(event))


def wanted(client: Client, job_id: str, follow: bool, tail: int | None) -> Iterator[Event]:
    """The events to print; with ``follow``, those that come join those that are there without a gap."""
    last = 0
    past: deque[Event] = deque(maxlen=tail)
    for event in client.past_events(job_id):
        last = event["seq"]
        if event["type"] in LINES:
            past.append(event)
    yield from past
    if follow:
        yield from (event for event in client.events(job_id, after=last) if event["type"] in LINES)


def line(event: Event) -> str:
    words = LINES[event["type"]].format_map(Missing({key: text(v) for key, v in event["data"].items()}))
    return f"{event['time']} {' '.join(words.split())}"


def text(value: object) -> str:
    return clean(str(value))


class Missing(dict[str, str]):
    """Members that an event leaves out are empty."""

    def __missing__(self, key: str) -> str:
        return ""


LINES = {
    "state": "state {state} {reason} {code} {message} {worker}",
    "stage": "stage {name} {state} {seconds}",
    "log": "{level} {message}",
    "checkpoint": "checkpoint at step {step}",
    "sample": "sample at step {step}: {text}",
}
