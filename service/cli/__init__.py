"""The ``gradmill`` command: one module a command, imported when that command is asked for."""

from service.cli.app import main

__all__ = ["main"]
