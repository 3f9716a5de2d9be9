"""``gradmill repeat``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import click

from service.cli.connect import find_job, open_client
from service.cli.exits import Exit
from service.cli.follow import follow
from service.wire import Job, Json

SHOWN = 16  # digits of a digest
# What a result tells of this run or this machine, not of what was computed.
OF_THE_RUN = frozenset({"artifacts", "compiler", "model", "seconds", "threads", "timings"})


@click.command("repeat")
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="The comparison as JSON.")
@click.pass_context
def command(ctx: click.Context, job: str, as_json: bool) -> int:
    """Do JOB once more from its stored spec, and compare the results bit for bit.

    Ends with 0 when they are the same, with 1 when they differ.
    """
    with open_client(ctx) as client:
        old = client.get(find_job(client, job))
        new = client.repeat(old["id"])
        click.echo(f"{new['id']} repeats {old['id']}", err=True)
        if as_json:
            client.wait(new["id"])
        elif (code := follow(client, new["id"])) is not Exit.OK:
            return code
        new = client.get(new["id"])
    if new["state"] != "succeeded":
        return Exit.JOB_FAILED
    compared = compare(old, new)
    click.echo(json.dumps(compared, ensure_ascii=False) if as_json else shown(compared))
    return Exit.OK if compared["same"] else Exit.JOB_FAILED


def compare(old: Job, new: Job) -> Json:
    """Both digests, and the members of the results that differ, by their paths."""
    before, after = dict(leaves(old["result"])), dict(leaves(new["result"]))
    different = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return {
        "same": not different,
        "different": {path: [before.get(path), after.get(path)] for path in different},
        "jobs": [described(old), described(new)],
    }


def described(job: Job) -> Json:
    names = ("id", "engine_version", "numerics_version")
    return {name: job[name] for name in names} | {"digest": digest(job["result"])}  # type: ignore[literal-required]


def digest(result: Any) -> str:
    """The sha256 of what was computed."""
    pairs = json.dumps(sorted(leaves(result)), separators=(",", ":"))
    return hashlib.sha256(pairs.encode()).hexdigest()


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The plain values of a result by their paths, such as ``choices.0.text``."""
    waiting = [(path, value)]
    while waiting:
        here, value = waiting.pop()
        if isinstance(value, dict):
            members = [(name, each) for name, each in value.items() if name not in OF_THE_RUN]
        elif isinstance(value, list):
            members = [(str(place), each) for place, each in enumerate(value)]
        else:
            yield here, value
            continue
        waiting += [(f"{here}.{name}" if here else name, each) for name, each in members]


def shown(compared: Json) -> str:
    """The comparison for a reader."""
    lines = [
        f"{each['id']}  {each['digest'][:SHOWN]}  engine {each['engine_version']},"
        f" numerics {each['numerics_version']}"
        for each in compared["jobs"]
    ]
    for path, (before, after) in compared["different"].items():
        lines.append(f"differs: {path}: {before!r}, now {after!r}")
    return "\n".join([*lines, "the same, bit for bit" if compared["same"] else "not the same"])
