"""How every command says that it can't go on."""

from __future__ import annotations

import json
import sys

import click


def say_error(code: str, message: str, hint: str = "") -> None:
    """Prints an error on stderr, as JSON when ``--json`` was given."""
    if "--json" in sys.argv:
        body = {"code": code, "message": message, "hint": hint}
        click.echo(json.dumps({"error": body}), err=True)
        return
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
