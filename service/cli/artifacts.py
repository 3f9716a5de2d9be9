"""``gradmill artifacts``."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path, PurePosixPath

import click

from service.cli.connect import find_job, open_client
from service.cli.saving import save
from service.cli.text import clean
from service.wire import JsonList

COLUMNS = "{:<32} {:>12}  {:<28} {}"


@click.command("artifacts")
@click.argument("job")
@click.argument("names", nargs=-1)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    help="Folder to write to.",
)
@click.option("--json", "as_json", is_flag=True, help="Each artifact as a line of JSON.")
@click.pass_context
def command(ctx: click.Context, job: str, names: tuple[str, ...], output: Path, as_json: bool) -> None:
    """List what JOB (an id, or `latest`) left behind, or write the artifacts NAMES to files."""
    with open_client(ctx) as client:
        job_id = find_job(client, job)
        found = client.artifacts(job_id)
        for name in names:
            artifact_id = id_of(name, found)
            output.mkdir(parents=True, exist_ok=True)
            path = output / PurePosixPath(clean(name)).name
            save(str(path), partial(client.download_artifact, job_id, artifact_id))
    if names:
        return
    if not as_json:
        click.echo(COLUMNS.format("name", "bytes", "type", "sha256"))
    for each in found:
        row = COLUMNS.format(clean(each["name"]), each["bytes"], clean(each["type"]), each["sha256"][:12])
        click.echo(json.dumps(each, ensure_ascii=False) if as_json else row)


def id_of(name: str, artifacts: JsonList) -> str:
    """The id of the artifact of this name."""
    for artifact in artifacts:
        if artifact["name"] == name:
            return str(artifact["id"])
    known = ", ".join(clean(artifact["name"]) for artifact in artifacts) or "none"
    raise click.UsageError(f"the job has no artifact {name!r}; it has {known}")
