"""``gradmill sample``."""

from __future__ import annotations

import json
from typing import Any

import click

from service.cli.connect import open_client
from service.cli.options import leaves, option_of
from service.cli.text import clean
from service.specs.sample import Sample

OPTIONS = tuple(leaves(Sample, frozenset({"model"})))


def with_options(command: Any) -> Any:
    for leaf in reversed(OPTIONS):
        command = option_of(leaf)(command)
    return command


@click.command("sample")
@click.argument("model")
@with_options
@click.option("--json", "as_json", is_flag=True, help="The whole answer as JSON.")
@click.pass_context
def command(ctx: click.Context, /, model: str, as_json: bool, **given: Any) -> None:
    """Continue a prompt with MODEL: an id, an alias, or job@step."""
    options: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, ())}
    prompt: str = options.pop("prompt", "\n")
    with open_client(ctx) as client:
        if as_json:
            click.echo(json.dumps(client.complete(model, prompt, **options), ensure_ascii=False))
            return
        if options.get("n", 1) > 1:
            for choice in client.complete(model, prompt, **options)["choices"]:
                click.echo(f"--- {choice['index']}\n{clean(prompt + choice['text'], lines=True)}")
            return
        said = False
        for piece in client.stream_completion(model, prompt, **options):
            click.echo(clean(piece if said else prompt + piece, lines=True), nl=False)
            said = True
        click.echo("" if said else prompt)
