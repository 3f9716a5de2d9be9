"""``gradmill up``."""

from __future__ import annotations

import json
from typing import Any

import click
from pydantic import ValidationError

from service.api.keys import KeyFileError
from service.api.security import BindError
from service.cli.exits import Exit
from service.cli.running import AlreadyRunningError, Running, read_running
from service.cli.system import AddressError, run_system
from service.embedded import EmbeddedServerError
from service.logs import log_as_json
from service.settings import Settings


@click.command("up")
@click.option("--host", help="Address to listen on [default 127.0.0.1].")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one [default 8000]."
)
@click.option("--json", "as_json", is_flag=True, help="The address as a line of JSON.")
def command(as_json: bool, **given: Any) -> int:
    """Start the whole system on this machine: a Redis-compatible server, the API and the workers.

    Everything lies in the folder GRADMILL_DATA_DIR [default data]. GRADMILL_REDIS_URL names another Redis.
    """
    settings = read_settings({name: value for name, value in given.items() if value is not None})
    log_as_json()

    def announce(running: Running) -> None:
        click.echo(json.dumps({"url": running.url}) if as_json else f"Gradmill runs at {running.url}")
        if not as_json:
            click.echo("Ctrl-C stops it; running jobs are stored and go on at the next start.", err=True)

    try:
        run_system(settings, announce)
    except AlreadyRunningError as error:
        running = read_running(settings.data_dir)
        where = f" at {running.url}" if running else ""
        click.echo(f"{error}{where}; stop it first, or choose another GRADMILL_DATA_DIR", err=True)
        return Exit.OK
    except (EmbeddedServerError, BindError, KeyFileError, AddressError) as error:
        raise click.UsageError(str(error)) from error
    return Exit.OK


def read_settings(given: dict[str, Any]) -> Settings:
    """The settings of the environment and of the options. UsageError names what breaks a rule."""
    try:
        return Settings(**given)
    except ValidationError as error:
        wrong = [f"GRADMILL_{str(each['loc'][0]).upper()}: {each['msg']}" for each in error.errors()]
        raise click.UsageError("; ".join(wrong)) from error
