"""``gradmill devices``."""

from __future__ import annotations

import os
import sys

import click


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
def command(as_json: bool) -> None:
    """Show what can compute on this machine; jobs use the first device that is available."""
    options = ["--json"] if as_json else []
    os.execv(sys.executable, [sys.executable, "-m", "workers.devices", *options])
