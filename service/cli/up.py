"""``gradmill up``."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import click
from pydantic import ValidationError

from service.api.keys import KeyFileError
from service.api.security import BindError
from service.cli.exits import Exit
from service.cli.running import AlreadyRunningError, DataFolderError, Running, read_running
from service.cli.system import AddressError, run_system
from service.embedded import EmbeddedServerError
from service.logs import LogLevelError, log_as_json
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

    def announce(running: Running) -> None:
        click.echo(json.dumps({"url": running.url}) if as_json else f"Gradmill runs at {running.url}")
        if not as_json:
            click.echo("Ctrl-C stops it; running jobs are stored and go on at the next start.", err=True)

    try:
        log_as_json()
        run_system(settings, announce)
    except AlreadyRunningError as error:
        return already_running(settings, str(error))
    except REFUSALS as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:  # a full or read-only disk, a file where a folder should be
        where = f" ({error.filename})" if error.filename else ""
        message = f"the data folder {settings.data_dir} can't be used: {error.strerror}{where}"
        raise click.UsageError(message) from error
    if not as_json:
        click.echo("Gradmill is stopped.", err=True)
    return Exit.OK


REFUSALS = (EmbeddedServerError, BindError, KeyFileError, AddressError, DataFolderError, LogLevelError)


def already_running(settings: Settings, message: str) -> int:
    """Nothing to do, unless another address is asked for than the one that the system has."""
    running = read_running(settings.data_dir)
    advice = "stop it first, or choose another GRADMILL_DATA_DIR"
    text = f"{message}{f' at {running.url}' if running else ''}; {advice}"
    if running is not None and not is_at(running, settings):
        raise click.UsageError(text)
    click.echo(text, err=True)
    return Exit.OK


def is_at(running: Running, settings: Settings) -> bool:
    """Whether a running system has the address that the settings name, if they name one; port 0 is any."""
    here, named = urlsplit(running.url), settings.model_fields_set
    same_host = "host" not in named or here.hostname == settings.host.strip("[]")
    return same_host and ("port" not in named or settings.port in (0, here.port))


def read_settings(given: dict[str, Any]) -> Settings:
    """The settings of the environment and of the options. UsageError names what breaks a rule."""
    try:
        return Settings(**given)
    except ValidationError as error:
        wrong = [
            ": ".join([*(f"GRADMILL_{str(name).upper()}" for name in each["loc"][:1]), each["msg"]])
            for each in error.errors()
        ]
        raise click.UsageError("; ".join(wrong)) from error
