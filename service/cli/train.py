"""``gradmill train``."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import click

from service.cli.connect import open_client
from service.cli.options import build_spec, put, spec_options
from service.cli.submission import Submission, submission_options
from service.client import Client
from service.specs.train import NAMED, TEXT_LIMIT, Train

MODELS = ("gpt", "mlp", "bigram")


@click.command("train")
@click.option("--model", type=click.Choice(MODELS), help="Architecture [default gpt].")
@click.option(
    "--corpus", help=f"{', '.join(NAMED)}, or a text file, which is uploaded [default shakespeare]."
)
@spec_options(Train, skip=frozenset({"corpus"}))
@submission_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    model: str | None,
    corpus: str | None,
    spec_file: Path | None,
    settings: tuple[str, ...],
    **given: Any,
) -> int:
    """Train a model on a text and watch it learn. Ctrl-C stops watching; the job goes on."""
    submission = Submission.taken_from(given)
    spec = build_spec(Train, given, spec_file, settings)
    if model or not spec.get("model", {}).get("name"):
        put(spec, ("model", "name"), model or "gpt")
    with open_client(ctx) as client:
        if corpus or "corpus" not in spec:
            put_corpus(client, spec, corpus or "shakespeare", dry_run=submission.dry_run)
        return submission.send(client, "train", spec)


def put_corpus(client: Client, spec: dict[str, Any], corpus: str, *, dry_run: bool) -> None:
    """Writes the corpus into a spec: a known name, or the text of a file.

    A text that a request can hold is sent along with a dry run, and only when that is accepted uploaded, so
    that a refused spec leaves nothing behind.
    """
    if corpus in NAMED:
        spec["corpus"] = {"name": corpus}
        return
    path = Path(corpus)
    if not path.is_file():
        raise click.UsageError(f"--corpus {corpus!r} is neither a file nor one of {', '.join(NAMED)}")
    content = path.read_bytes()
    if len(content) <= TEXT_LIMIT:
        spec["corpus"] = {"text": as_text(content, path)}
        if dry_run:
            return
        client.estimate("train", spec)
    spec["corpus"] = {"file": upload_once(client, path, content)}


def as_text(content: bytes, path: Path) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        rule = f"must be text in UTF-8, but {error.reason} at byte {error.start}"
        raise click.UsageError(f"--corpus {str(path)!r} {rule}") from error


def upload_once(client: Client, path: Path, content: bytes) -> str:
    """The id of the file with this content; it is uploaded unless it was before."""
    digest = hashlib.sha256(content).hexdigest()
    for file in client.files():
        if file["sha256"] == digest:
            return str(file["id"])
    return str(client.upload(path)["id"])
