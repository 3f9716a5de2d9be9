"""``gradmill keys``."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import click

from service.cli.connect import data_folder, open_client
from service.cli.running import read_running
from service.cli.text import clean
from service.cli.up import read_settings
from service.jobs.connection import connect
from service.keys import KNOWN_FOR_S, SCOPES, new_key, put

COLUMNS = "{:<31} {:<20} {:<20} {:<20} {}"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
DURATION = re.compile(rf"([1-9][0-9]{{0,6}})([{''.join(UNITS)}])")


class Duration(click.ParamType[int]):
    """A time such as ``30d``, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        form = DURATION.fullmatch(str(value))
        if form is None:
            self.fail(f"{value!r} must be a number and a unit, as in 90s, 45m, 12h or 30d", param, ctx)
        return int(form[1]) * UNITS[form[2]]


@click.group("keys")
def command() -> None:
    """Create, list and revoke API keys.

    As soon as there is a key, nobody gets in without one.
    """


@command.command("create")
@click.option("--admin", is_flag=True, help="A key for everything, written straight to Redis.")
@click.option("--name", default="", help="What people call it.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="What it may do.")
@click.option("--owner", default="", help="Whose jobs it sees and makes; else only its own.")
@click.option("--expires", type=Duration(), metavar="TIME", help="When it ends, as in 30d.")
@click.option("--queued", type=click.IntRange(0), help="Most queued jobs; 0: no bound.")
@click.option("--running", type=click.IntRange(0), help="Most running jobs; 0: no bound.")
@click.option("--bytes", type=click.IntRange(0), help="Most bytes of uploads and checkpoints; 0: no bound.")
@click.option("--json", "as_json", is_flag=True, help="The key object, with its secret.")
@click.pass_context
def create(
    ctx: click.Context,
    /,
    *,
    admin: bool,
    name: str,
    scopes: tuple[str, ...],
    owner: str,
    expires: int | None,
    as_json: bool,
    **limits: int | None,
) -> None:
    """Make a key and print it, which happens once.

    ``--admin`` asks nobody: it is for whoever runs the system. It needs the Redis of GRADMILL_REDIS_URL, or
    that of the system on this data folder. Other keys are made by the server, asked with an admin's key.
    """
    given = {key: value for key, value in limits.items() if value is not None}
    if admin:
        if scopes or owner or given:
            raise click.UsageError("--admin goes with --name and --expires only: an admin may do everything")
        made = create_admin(name, expires or 0)
    else:
        body: dict[str, Any] = {"name": name, "owner": owner, "expires_in_s": expires, "limits": given}
        with open_client(ctx) as client:
            made = client.create_key(**body, **({"scopes": list(scopes)} if scopes else {}))
    click.echo(json.dumps(made) if as_json else made["secret"])
    click.echo(f"{made['id']}: keep it, it can't be shown again", err=True)


def create_admin(name: str, lives_s: int) -> dict[str, Any]:
    """Writes an admin key into Redis."""
    made, secret = new_key(["admin"], name=name, lives_s=lives_s)
    with connect(redis_url(), patient=False) as redis, redis.pipeline(transaction=True) as pipe:
        for each in put(made):
            pipe.execute_command(*each)
        pipe.execute()
    time.sleep(KNOWN_FOR_S)  # from now on every process of the API asks for a key
    return {"object": "key", "id": made.id, "scopes": sorted(made.scopes), "secret": secret}


def redis_url() -> str:
    """The Redis of the environment, else that of the system on this data folder."""
    settings = read_settings({})
    if "redis_url" in settings.model_fields_set:
        return settings.redis_url
    running = read_running(data_folder())
    if running is None:
        raise click.UsageError(
            f"no system runs on {data_folder()}: start it with `gradmill up`, or set GRADMILL_REDIS_URL"
        )
    return running.redis_url


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Each key as a line of JSON.")
@click.pass_context
def list_keys(ctx: click.Context, as_json: bool) -> None:
    """List keys, newest first, without those of the key file."""
    with open_client(ctx) as client:
        keys = client.api_keys()
    if not as_json:
        click.echo(COLUMNS.format("id", "owner", "scopes", "expires", "name").rstrip())
    for each in keys:
        scopes, expires = ",".join(each["scopes"]), (each["expires_at"] or "never")[:19]
        row = COLUMNS.format(each["id"], each["owner"], scopes, expires, clean(each["name"] or ""))
        click.echo(json.dumps(each, ensure_ascii=False) if as_json else row.rstrip())


@command.command("revoke")
@click.argument("keys", nargs=-1, required=True)
@click.pass_context
def revoke(ctx: click.Context, keys: tuple[str, ...]) -> None:
    """Revoke KEYS, named by their ids; what was made with them stays."""
    with open_client(ctx) as client:
        for key_id in keys:
            client.revoke_key(key_id)
            click.echo(f"{key_id} is revoked", err=True)
