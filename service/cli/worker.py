"""``gradmill worker``."""

from __future__ import annotations

import os
import sys

import click

from service.jobs.lanes import LANES


@click.command("worker")
@click.argument("lanes", nargs=-1, type=click.Choice(LANES))
def command(lanes: tuple[str, ...]) -> None:
    """Run a worker for each of LANES (default: all), for the Redis that GRADMILL_REDIS_URL names.

    Ends on Ctrl-C or SIGTERM: running jobs are stored and given back.
    """
    os.execv(sys.executable, [sys.executable, "-m", "workers.supervisor", *lanes])
