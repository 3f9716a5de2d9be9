"""``gradmill models``."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import click

from service.cli.connect import open_client
from service.cli.text import clean
from service.wire import Json

COLUMNS = "{:<33} {:<20} {:<8} {:>8} {:<20}  {}"


@click.command("models")
@click.option("--json", "as_json", is_flag=True, help="Each model as a line of JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List published models, newest first. An alias names the newest model published under it."""
    with open_client(ctx) as client:
        models = client.models()
    if not as_json:
        click.echo(COLUMNS.format("id", "alias", "kind", "step", "created", "job"))
    for model in models:
        click.echo(json.dumps(model, ensure_ascii=False) if as_json else row(model))


def row(model: Json) -> str:
    created = datetime.fromtimestamp(model["created"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kind = (model["config"] or {}).get("name", "")
    alias = clean(model["alias"] or "")
    return COLUMNS.format(model["id"], alias, kind, model["step"] or 0, created, model["job"] or "").rstrip()
