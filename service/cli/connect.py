"""Which server a command talks to, and which job it means."""

from __future__ import annotations

import os
from pathlib import Path

import click

from service.cli.running import read_running
from service.client import Client

DEFAULT_URL = "http://127.0.0.1:8000"
PATIENCE_S = 3.0  # a reader at a terminal waits no longer for the first answer


def data_folder() -> Path:
    """The data folder of this place: ``GRADMILL_DATA_DIR``, else ``data``."""
    return Path(os.environ.get("GRADMILL_DATA_DIR") or "data")


def open_client(ctx: click.Context) -> Client:
    """A client of ``--url`` or ``GRADMILL_URL``, else of the system that runs on this data folder."""
    running = read_running(data_folder())
    url: str = ctx.obj or (running.url if running else DEFAULT_URL)
    return Client(url, os.environ.get("GRADMILL_API_KEY"), patience_s=PATIENCE_S)


def find_job(client: Client, name: str) -> str:
    """A job's id; ``latest`` means the newest job."""
    if name != "latest":
        return name
    page = client.list(limit=1)
    if not page["data"]:
        raise click.UsageError("there is no job yet; `gradmill train` starts one")
    return page["data"][0]["id"]
