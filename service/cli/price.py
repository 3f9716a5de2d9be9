"""``gradmill price``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from service.cli.connect import open_client
from service.cli.options import json_or_text, put, read_json_object
from service.cli.submission import Submission, submission_options

FIELDS: dict[str, tuple[str, ...]] = {
    "type": ("type",),
    "spot": ("S",),
    "strike": ("K",),
    "expiry": ("T",),
    "rate": ("r",),
    "dividend": ("q",),
    "vol": ("vol",),
    "correlation": ("corr",),
    "paths": ("mc", "paths"),
    "target_se": ("mc", "target_se"),
    "seed": ("mc", "seed"),
}
"""Options by the fields of the contract that they set."""


@click.command("price")
@click.argument("instrument", required=False)
@click.option("--type", type=click.Choice(["call", "put"]), help="Call or put.")
@click.option("--spot", "-S", multiple=True, type=click.FLOAT, help="Spot; once for each asset.")
@click.option("--strike", "-K", type=click.FLOAT, help="Strike.")
@click.option("--expiry", "-T", type=click.FLOAT, help="Years to expiry.")
@click.option("--rate", "-r", type=click.FLOAT, help="Continuous rate, as in 0.05.")
@click.option("--dividend", "-q", multiple=True, type=click.FLOAT, help="Continuous yield of each asset.")
@click.option("--vol", multiple=True, type=click.FLOAT, help="Volatility of each asset, as in 0.2.")
@click.option("--correlation", type=click.FLOAT, help="Correlation of two assets.")
@click.option("--paths", type=click.INT, help="Simulate this many paths.")
@click.option("--target-se", type=click.FLOAT, help="Simulate until the standard error is this small.")
@click.option("--seed", type=click.INT, help="Start of the random numbers.")
@click.option("--greeks", help="Greeks wanted, as in delta,gamma,vega.")
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Contract as JSON to begin with.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Any field, by its path, as in averaging.n=50; the value is JSON or text.",
)
@submission_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    instrument: str | None,
    greeks: str | None,
    file: Path | None,
    settings: tuple[str, ...],
    **given: Any,
) -> int:
    """Price INSTRUMENT (european, asian, barrier, …): docs/pricing.md lists all and their fields.

    Ctrl-C stops watching; the job goes on.
    """
    submission = Submission.taken_from(given)
    contract = {} if file is None else read_json_object(file)
    if instrument is not None:
        contract["instrument"] = instrument
    for name, path in FIELDS.items():
        value = given[name]
        if value not in (None, ()):
            put(contract, path, _one_or_many(value) if isinstance(value, tuple) else value)
    if greeks is not None:
        contract["greeks"] = [name.strip() for name in greeks.split(",") if name.strip()]
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--set {setting!r}: it must read FIELD=VALUE, as in averaging.n=50")
        put(contract, tuple(name.split(".")), json_or_text(value))
    many = contract.keys() == {"contracts"}
    with open_client(ctx) as client:
        return submission.send(client, "price", contract if many else {"contract": contract})


def _one_or_many(values: tuple[float, ...]) -> float | list[float]:
    return values[0] if len(values) == 1 else list(values)
