"""``gradmill doctor``."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

import click
from redis.exceptions import RedisError

from service.cli.connect import data_folder, open_client
from service.cli.exits import Exit
from service.client import Client, ClientError
from service.embedded import EmbeddedServerError, find_product
from service.jobs.connection import connect

LEAST_FREE_BYTES = 2**30


@dataclass(frozen=True)
class Finding:
    """What a check found; ``ok`` is None for what is only worth knowing."""

    name: str
    ok: bool | None
    detail: str


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> int:
    """Check that everything needed is there, and that a running system is well."""
    findings = [check() for check in (python, redis_server, compiler, dashboard, folder)]
    with open_client(ctx) as client:
        findings.append(system(client))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        marks = {True: "ok  ", False: "FAIL", None: "note"}
        for finding in findings:
            click.echo(f"{marks[finding.ok]} {finding.name:<10} {finding.detail}")
    return Exit.JOB_FAILED if any(finding.ok is False for finding in findings) else Exit.OK


def python() -> Finding:
    return Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()} in {sys.prefix}")


def redis_server() -> Finding:
    """The embedded server's binary, or the Redis that GRADMILL_REDIS_URL names."""
    if url := os.environ.get("GRADMILL_REDIS_URL"):
        try:
            with connect(url, patient=False) as redis:
                return Finding("redis", True, f"{redis.info('server')['redis_version']} at {url}")
        except RedisError as error:
            return Finding("redis", False, f"{url}: {error}")
    try:
        product = find_product()
    except EmbeddedServerError as error:
        return Finding("redis", False, str(error))
    return Finding("redis", True, f"{product} at {product.binary}")


def compiler() -> Finding:
    """Asks another process, so that this one needn't load the engine."""
    asked = subprocess.run(
        [sys.executable, "-m", "workers.devices", "--json"], capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        return Finding("devices", False, asked.stderr.strip().splitlines()[-1].removeprefix("error: "))
    rows: list[dict[str, Any]] = json.loads(asked.stdout)
    best = next(row for row in rows if row["available"])
    notes = [row["note"] if row["available"] else row["detail"] for row in rows]
    notes = [note for note in notes if note]
    return Finding(
        "devices", None if notes else True, "; ".join([f"{best['name']}: {best['detail']}", *notes])
    )


def dashboard() -> Finding:
    if files("service").joinpath("static", "index.html").is_file():
        return Finding("dashboard", True, "built")
    return Finding("dashboard", None, "not built; `make web` builds it")


def folder() -> Finding:
    """Whether the data folder, or the one it will be made in, can be written and has room."""
    data = data_folder().resolve()
    there = next(path for path in (data, *data.parents) if path.exists())
    free = shutil.disk_usage(there).free
    writable = os.access(there, os.W_OK)
    detail = f"{data}, {free / 2**30:.1f} GiB free" if writable else f"{there} can't be written"
    return Finding("data", writable and free >= LEAST_FREE_BYTES, detail)


def system(client: Client) -> Finding:
    try:
        ready = client.ready()
    except ClientError as error:
        return Finding("system", None, f"not running at {client.url} ({error}); `gradmill up` starts it")
    return Finding("system", True, f"{client.url}: {json.dumps(ready)}")
