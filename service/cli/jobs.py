"""``gradmill jobs``."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import click

from service.cli.connect import open_client
from service.cli.text import name_of
from service.wire import Job

STATES = ("queued", "running", "cancelling", "paused", "succeeded", "failed", "cancelled")
TIMES = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S"])
COLUMNS = "{:<31} {:<7} {:<11} {:<20} {:>13}  {}"


@click.command("jobs")
@click.option(
    "--state", type=click.Choice(STATES), multiple=True, help="Only jobs in this state; may be repeated."
)
@click.option("--kind", help="Only jobs of this kind.")
@click.option("--name", help="Only jobs of exactly this name.")
@click.option(
    "--metadata", multiple=True, metavar="KEY=VALUE", help="Only jobs with this entry; may be repeated."
)
@click.option("--since", "created_after", type=TIMES, help="Only jobs created later; UTC.")
@click.option("--until", "created_before", type=TIMES, help="Only jobs created before; UTC.")
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="At most so many.")
@click.option("--after", metavar="ID", help="The page that follows this job.")
@click.option("--json", "as_json", is_flag=True, help="The page as the API gives it.")
@click.pass_context
def command(
    ctx: click.Context, /, as_json: bool, metadata: tuple[str, ...], state: tuple[str, ...], **filters: Any
) -> None:
    """List jobs, newest first."""
    entries = dict(entry(each) for each in metadata)
    for name in ("created_after", "created_before"):
        filters[name] = filters[name] and filters[name].replace(tzinfo=UTC)
    with open_client(ctx) as client:
        page = client.list(metadata=entries, state=",".join(state) or None, **filters)
    if as_json:
        click.echo(json.dumps(page, ensure_ascii=False))
        return
    click.echo(COLUMNS.format("id", "kind", "state", "created", "progress", "name"))
    for job in page["data"]:
        click.echo(row(job))
    if page["has_more"]:
        click.echo(f"more: gradmill jobs --after {page['data'][-1]['id']}", err=True)


def entry(given: str) -> tuple[str, str]:
    """Key and value of an entry of the metadata."""
    key, equals, value = given.partition("=")
    if not equals or not key:
        raise click.UsageError(f"--metadata {given!r}: it must read KEY=VALUE, as in team=blue")
    return key, value


def row(job: Job) -> str:
    progress = job["progress"]
    reached = f"{progress['step']}/{progress['steps']}" if progress else ""
    created = job["created_at"][:19] + "Z"
    name = name_of(job)[:60]
    return COLUMNS.format(job["id"], job["kind"], job["state"], created, reached, name).rstrip()
