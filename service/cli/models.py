"""``gradmill models``."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial

import click

from service.cli.connect import open_client
from service.cli.saving import save
from service.cli.text import clean
from service.wire import Json

COLUMNS = "{:<33} {:<20} {:<8} {:>8} {:<20}  {}"


@click.group("models", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Each model as a line of JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List published models, newest first, or do with them what a command below says.

    An alias names the newest model published under it, until it is moved.
    """
    if ctx.invoked_subcommand is not None:
        return
    with open_client(ctx) as client:
        models, aliases = client.models(), client.aliases()
    if not as_json:
        click.echo(COLUMNS.format("id", "alias", "kind", "step", "created", "job"))
    for model in models:
        names = [alias for alias, named in aliases.items() if named == model["id"]]
        click.echo(json.dumps(model, ensure_ascii=False) if as_json else row(model, names))


def row(model: Json, aliases: list[str]) -> str:
    """A line of the table, with the aliases that name the model now."""
    created = datetime.fromtimestamp(model["created"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kind = (model["config"] or {}).get("name", "")
    names = clean(", ".join(sorted(aliases)))
    return COLUMNS.format(model["id"], names, kind, model["step"] or 0, created, model["job"] or "").rstrip()


@command.command("alias")
@click.argument("alias")
@click.argument("model", required=False)
@click.option("--remove", is_flag=True, help="Take the alias away.")
@click.pass_context
def alias(ctx: click.Context, alias: str, model: str | None, remove: bool) -> None:
    """Let ALIAS name MODEL (an id, or another alias) from now on."""
    if remove == (model is not None):
        raise click.UsageError("give either the model that the alias shall name, or --remove")
    with open_client(ctx) as client:
        if model is None:
            client.delete_alias(alias)
        else:
            client.set_alias(alias, client.model(model)["id"])


@command.command("download")
@click.argument("model")
@click.option("-o", "--output", help="Where to [default: MODEL.safetensors]; `-` for stdout.")
@click.pass_context
def download(ctx: click.Context, model: str, output: str | None) -> None:
    """Write the weights of MODEL (an id or alias) to a file, as safetensors."""
    with open_client(ctx) as client:
        save(output or f"{model}.safetensors", partial(client.download_model, model))


@command.command("delete")
@click.argument("models", nargs=-1, required=True)
@click.pass_context
def delete(ctx: click.Context, models: tuple[str, ...]) -> None:
    """Delete MODELS (ids or aliases), with the aliases that name them."""
    with open_client(ctx) as client:
        for name in models:
            client.delete_model(name)
            click.echo(f"{name} deleted")
