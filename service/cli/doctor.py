"""``gradmill doctor``."""

from __future__ import annotations

import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from redis import Redis
from redis.exceptions import RedisError

from service.api.keys import KeyFileError, load_keys
from service.cli.connect import data_folder, open_client
from service.cli.exits import Exit
from service.cli.running import read_running
from service.client import Client, ClientError, ServerFaultError, UnauthorisedError
from service.embedded import EmbeddedServerError, find_product
from service.jobs.connection import connect
from service.jobs.schema import SCHEMA_KEY, VERSION
from service.logs import redact
from service.settings import read_secret
from service.versions import ENGINE_VERSION

LEAST_FREE_BYTES = 2**30
CLOCK_S = 5.0


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
    findings = [check() for check in (python, redis_server, compiler, dashboard, folder, key_file)]
    if url := redis_url():
        findings += redis_state(url)
    with open_client(ctx) as client:
        findings += system(client)
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
    if url := named_redis():
        try:
            with connect(url, patient=False) as redis:
                return Finding("redis", True, f"{redis.info('server')['redis_version']} at {redact(url)}")
        except (RedisError, ValueError) as error:
            return Finding("redis", False, redact(f"{url}: {error}"))
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


def key_file() -> Finding:
    """Whether a key file is there, right, and nobody else's to read."""
    path = os.environ.get("GRADMILL_API_KEY_FILE")
    if not path:
        return Finding("key file", None, "none; needed to listen on another address than loopback")
    try:
        number = len(load_keys(Path(path)))
    except KeyFileError as error:
        return Finding("key file", False, str(error))
    if Path(path).stat().st_mode & stat.S_IROTH:
        return Finding(
            "key file", None, f"{path} can be read by every user of this machine: chmod 600 {path}"
        )
    return Finding("key file", True, f"{path} holds {number} keys")


def named_redis() -> str:
    """The Redis that the environment names, if any."""
    file = os.environ.get("GRADMILL_REDIS_URL_FILE")
    try:
        return read_secret(Path(file)) if file else os.environ.get("GRADMILL_REDIS_URL", "")
    except ValueError:
        return ""


def redis_url() -> str:
    """The Redis of the environment, else of the system that runs on this data folder, if any."""
    running = read_running(data_folder())
    return named_redis() or (running.redis_url if running else "")


def redis_state(url: str) -> list[Finding]:
    """Whether what Redis holds is safe there, and can be read by this release."""
    try:
        with connect(url, patient=False) as redis:
            return [durability(redis), schema(redis), clock(redis)]
    except (RedisError, ValueError) as error:
        return [Finding("store", False, redact(str(error)))]


def durability(redis: Redis) -> Finding:
    """What is written must survive a restart, and nothing may be evicted."""
    aof, policy = redis.info("persistence")["aof_enabled"], redis.info("memory")["maxmemory_policy"]
    wrong = [] if aof else ["appendonly is off, so a restart loses jobs"]
    if policy != "noeviction":
        wrong.append(f"maxmemory-policy is {policy}, which may evict jobs: set noeviction")
    return Finding("durability", not wrong, "; ".join(wrong) or "append-only file, nothing is evicted")


def schema(redis: Redis) -> Finding:
    found = int(redis.get(SCHEMA_KEY) or VERSION)
    return Finding("schema", found <= VERSION, f"{found}; this release writes {VERSION}")


def clock(redis: Redis) -> Finding:
    """Time is Redis's everywhere; another clock here only confuses readers."""
    seconds, micros = redis.time()
    ahead = time.time() - seconds - micros / 1e6
    return Finding("clock", True if abs(ahead) < CLOCK_S else None, f"{ahead:+.1f} s from Redis's")


def system(client: Client) -> list[Finding]:
    """What a running system says of itself."""
    try:
        ready, version = client.ready(), client.version()
    except UnauthorisedError as error:
        return [Finding("system", False, f"{client.url}: {error}")]
    except ServerFaultError as error:
        return [Finding("system", False, f"{client.url}: {error}")]
    except ClientError as error:
        return [Finding("system", None, f"not running at {client.url} ({error}); `gradmill up` starts it")]
    lanes = ready["workers"]
    idle = [lane for lane, number in lanes.items() if number == 0]
    told = ", ".join(f"{lane}: {number}" for lane, number in lanes.items())
    return [
        Finding("system", True, f"{client.url}: Redis and the store work"),
        Finding("version", True if version == ENGINE_VERSION else None, f"{version}; here {ENGINE_VERSION}"),
        Finding("workers", not idle, f"{told}{'; `gradmill worker` starts them' if idle else ''}"),
    ]
