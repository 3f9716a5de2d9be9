"""The command group, and what errors become: a message, a hint, an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.metadata import version
from typing import NoReturn

import click

from service.cli.exits import Exit
from service.cli.refusal import say_error

COMMANDS = {
    "up": "Start the whole system on this machine.",
    "serve": "Run the API alone, for workers elsewhere.",
    "worker": "Run this machine's workers for a system elsewhere.",
    "train": "Train a model and watch it learn.",
    "sample": "Continue a prompt with a trained model.",
    "price": "Price a contract, with errors, Greeks and the exact value.",
    "compile": "Compile an expression, see each stage, and time it.",
    "jobs": "List jobs.",
    "show": "Show a job in detail.",
    "watch": "Follow a job until it ends.",
    "logs": "Print a job's log.",
    "cancel": "Cancel jobs.",
    "pause": "Ask jobs to checkpoint and wait.",
    "resume": "Let paused jobs go on.",
    "retry": "Go on with a failed or cancelled job as a new one.",
    "repeat": "Do a job once more and compare the results.",
    "delete": "Delete jobs that have ended.",
    "artifacts": "List or download what a job left behind.",
    "files": "List, upload, download or delete texts.",
    "models": "List, alias, download or delete published models.",
    "keys": "Create, list and revoke API keys.",
    "doctor": "Check that everything needed is there.",
    "devices": "Show what can compute on this machine.",
    "demo": "Train on Shakespeare on a system of its own, and show the result.",
}


class LazyGroup(click.Group):
    """A group that knows its commands' summaries and imports a command only to run it or to explain it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"service.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--url", envvar="GRADMILL_URL", help="Server; default: the one started by `up` here.")
@click.version_option(version("gradmill"), message="%(version)s")
@click.pass_context
def group(ctx: click.Context, url: str | None) -> None:
    """Train small models and sample from them; compile expressions and see how."""
    ctx.obj = url


def main() -> NoReturn:
    """Runs the command line and exits with its code."""
    try:
        code = group.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        code = Exit.OK
    except click.ClickException as error:
        wrong_use = isinstance(error, click.UsageError)
        hint = f"{error.ctx.command_path} --help" if isinstance(error, click.UsageError) and error.ctx else ""
        say_error("usage" if wrong_use else "error", error.format_message(), hint)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = Exit.DETACHED
    except BrokenPipeError:  # whoever read our output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.OK
    except Exception as error:
        from service.cli.report import report  # what it knows is slow to import

        code = report(error)
    sys.exit(code if isinstance(code, int) else Exit.OK)
