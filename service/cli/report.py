"""Which error leads to which message, hint and exit code."""

from __future__ import annotations

from dataclasses import dataclass

from service.cli.exits import Exit
from service.cli.refusal import say_error
from service.client import NotFoundError, RefusedError, ServerFaultError, UnauthorisedError, UnreachableError


@dataclass(frozen=True)
class Described:
    """An error as it is printed."""

    exit: Exit
    code: str
    message: str
    hint: str = ""


HINTS: tuple[tuple[type[Exception], Exit, str], ...] = (
    (
        UnreachableError,
        Exit.UNREACHABLE,
        "start it with `gradmill up`, or name it with --url or GRADMILL_URL",
    ),
    (UnauthorisedError, Exit.UNAUTHORISED, "set GRADMILL_API_KEY to a key of this server"),
    (NotFoundError, Exit.NOT_FOUND, "`gradmill jobs` lists what there is"),
    (ServerFaultError, Exit.UNREACHABLE, "`gradmill doctor` looks for the cause"),
    (RefusedError, Exit.USAGE, ""),
    (TimeoutError, Exit.TIMEOUT, "the job goes on; `gradmill watch` shows it"),
)

HINTS_BY_CODE = {
    "unknown-model": "`gradmill models` lists the published ones; job@step names a checkpoint",
    "scope": "use a key that has it; an admin makes one with `gradmill keys create --scope`",
    "no-worker": "start workers with `gradmill worker`, or the whole system with `gradmill up`",
}


def describe_error(error: Exception) -> Described | None:
    """How an expected error is reported; None for an unexpected one."""
    for kind, exit_code, hint in HINTS:
        if isinstance(error, kind):
            code = error.code if isinstance(error, RefusedError) else kind.__name__
            return Described(exit_code, code, message_of(error), HINTS_BY_CODE.get(code, hint))
    return None


def message_of(error: Exception) -> str:
    """The error's text; a refusal of several fields names each on a line of its own."""
    if isinstance(error, RefusedError) and len(error.errors) > 1:
        return "\n  ".join([f"{len(error.errors)} fields", *(each["message"] for each in error.errors)])
    return str(error)


def report(error: Exception) -> int:
    """Prints an error; the exit code. Bugs are raised again."""
    described = describe_error(error)
    if described is None:
        raise error
    say_error(described.code, described.message, described.hint)
    return described.exit
