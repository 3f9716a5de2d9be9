"""Downloads: to a file that is whole or not there, or to stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import click


def save(output: str, write: Callable[[BinaryIO], int]) -> None:
    """Lets ``write`` fill the file ``output``, and says so; ``-`` is stdout."""
    if output == "-":
        write(sys.stdout.buffer)
        return
    path = Path(output)
    aside = path.with_name(f"{path.name}.part")
    try:
        with aside.open("wb") as target:
            size = write(target)
        aside.replace(path)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)
    click.echo(f"{path} {size} bytes", err=True)
