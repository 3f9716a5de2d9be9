"""``gradmill serve``."""

from __future__ import annotations

import click

from service.api.server import serve
from service.cli.running import make_folder
from service.cli.system import bind
from service.cli.up import REFUSALS, read_settings
from service.logs import log_as_json


@click.command("serve")
def command() -> None:
    """Run the API alone, for a Redis and for workers elsewhere.

    Several of them may stand on one Redis and one data folder. Ends on Ctrl-C or SIGTERM.
    """
    settings = read_settings({})
    try:
        log_as_json()
        make_folder(settings.data_dir)
        with bind(settings) as listening:
            host, port = listening.getsockname()[:2]
            serve(
                settings,
                [listening],
                lambda: click.echo(f"Gradmill's API listens on {host}:{port}"),
            )
    except REFUSALS as error:
        raise click.UsageError(str(error)) from error
