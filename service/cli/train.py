"""``gradmill train``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from service.cli.connect import open_client
from service.cli.exits import Exit
from service.cli.follow import follow
from service.cli.options import build_spec, put, spec_options
from service.client import Client
from service.specs.train import NAMED, Train

MODELS = ("gpt", "mlp", "bigram")


@click.command("train")
@click.option("--model", type=click.Choice(MODELS), help="Architecture [default gpt].")
@click.option(
    "--corpus", help=f"{', '.join(NAMED)}, or a text file, which is uploaded [default shakespeare]."
)
@spec_options(Train, skip=frozenset({"corpus"}))
@click.option("--name", help="A name for the job.")
@click.option("--priority", type=int, help="Higher is served first.")
@click.option("--timeout-s", type=int, help="Most seconds the job may run.")
@click.option("--max-attempts", type=int, help="How often it is tried when workers get lost.")
@click.option("--idempotency-key", help="Sent twice with the same key, the job is made once.")
@click.option("--dry-run", is_flag=True, help="Print the whole spec and its estimate; queue nothing.")
@click.option("--detach", is_flag=True, help="Print the job's id and leave.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    model: str | None,
    corpus: str | None,
    spec_file: Path | None,
    settings: tuple[str, ...],
    dry_run: bool,
    detach: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Train a model on a text and watch it learn. Ctrl-C stops watching; the job goes on."""
    job_options = {name: given.pop(name) for name in JOB_OPTIONS}
    spec = build_spec(Train, given, spec_file, settings)
    if model or not spec.get("model", {}).get("name"):
        put(spec, ("model", "name"), model or "gpt")
    with open_client(ctx) as client:
        if corpus or "corpus" not in spec:
            spec["corpus"] = find_corpus(client, corpus or "shakespeare", upload=not dry_run)
        if dry_run:
            click.echo(json.dumps(client.estimate("train", spec), ensure_ascii=False))
            return Exit.OK
        job = client.submit("train", spec, **job_options)
        if detach:
            click.echo(json.dumps(job, ensure_ascii=False) if as_json else job["id"])
            return Exit.OK
        click.echo(f"{job['id']}: {client.url}/jobs/{job['id']}", err=True)
        return follow(client, job["id"], as_json=as_json)


JOB_OPTIONS = ("name", "priority", "timeout_s", "max_attempts", "idempotency_key")


def find_corpus(client: Client, corpus: str, *, upload: bool) -> dict[str, str]:
    """The corpus member of a spec: a known name, or the id of the file that is uploaded for it."""
    if corpus in NAMED:
        return {"name": corpus}
    path = Path(corpus)
    if not path.is_file():
        raise click.UsageError(f"--corpus {corpus!r} is neither a file nor one of {', '.join(NAMED)}")
    if not upload:
        return {"text": path.read_text(encoding="utf-8")}
    return {"file": client.upload(path)["id"]}
