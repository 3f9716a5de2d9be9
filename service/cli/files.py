"""``gradmill files``."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click

from service.cli.connect import open_client
from service.cli.saving import save
from service.cli.text import clean

COLUMNS = "{:<32} {:>12} {:<20}  {}"
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Each file as a line of JSON.")


@click.group("files", invoke_without_command=True)
@AS_JSON
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List uploaded texts, newest first, or do with them what a command below says."""
    if ctx.invoked_subcommand is not None:
        return
    with open_client(ctx) as client:
        files = list(client.files())
    if not as_json:
        click.echo(COLUMNS.format("id", "characters", "created", "name"))
    for file in files:
        created = datetime.fromtimestamp(file["created_at"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        row = COLUMNS.format(file["id"], file["characters"], created, clean(file["filename"]))
        click.echo(json.dumps(file, ensure_ascii=False) if as_json else row)


@command.command("upload")
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
@AS_JSON
@click.pass_context
def upload(ctx: click.Context, paths: tuple[Path, ...], as_json: bool) -> None:
    """Upload texts, `-` for stdin, and print their ids, which a train spec takes as corpus.file."""
    with open_client(ctx) as client:
        for path in paths:
            if str(path) == "-":
                file = client.upload_stream("stdin", sys.stdin.buffer)
            else:
                file = client.upload(path)
            click.echo(json.dumps(file, ensure_ascii=False) if as_json else file["id"])


@command.command("download")
@click.argument("file")
@click.option("-o", "--output", help="Where to [default: the file's name]; `-` for stdout.")
@click.pass_context
def download(ctx: click.Context, file: str, output: str | None) -> None:
    """Write the text of FILE (an id) to a file."""
    with open_client(ctx) as client:
        found = client.file(file)
        save(output or found["filename"], partial(client.download_file, file))


@command.command("delete")
@click.argument("files", nargs=-1, required=True)
@click.pass_context
def delete(ctx: click.Context, files: tuple[str, ...]) -> None:
    """Delete FILES (ids). Jobs that were accepted with them keep their text."""
    with open_client(ctx) as client:
        for file in files:
            client.delete_file(file)
            click.echo(f"{file} deleted")
