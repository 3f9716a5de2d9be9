"""A price job as lines: the running estimate, then the answer as tables."""

from __future__ import annotations

from typing import Any

import click

from service.cli.follow import Picture, state_line
from service.cli.text import clean
from service.wire import Event


class Prices:
    """Estimates are said each time their number of paths has doubled; answers when they come."""

    def __init__(self) -> None:
        self._said = 0

    def __enter__(self) -> Prices:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, picture: Picture, event: Event) -> None:
        kind, data = event["type"], event["data"]
        if kind == "state":
            click.echo(state_line(picture), err=True)
        elif kind == "log":
            click.echo(f"{data['level']}: {clean(data['message'])}", err=True)
        elif kind == "report" and "answer" in data:
            self._said = 0
            for line in answer_lines(data["contract"], data["answer"]):
                click.echo(line)
        elif kind == "report" and data["n"] >= 2 * self._said:
            self._said = data["n"]
            click.echo(
                f"{data['n']:>12,} paths  {_number(data['price'], 6)} ± {_number(data['se'])}", err=True
            )


def answer_lines(number: int, answer: dict[str, Any]) -> list[str]:
    """One line for one of many contracts; a table for a single one."""
    if answer["kind"] == "error":
        return [f"{number}: {clean(answer['message'])}"]
    if answer["kind"] == "implied_vol":
        return [f"implied volatility {answer['value']!r}"]
    if "method" not in answer:
        return [f"{number}: {answer['price']!r} ± {_number(answer['se'])}"]
    rows = [("price", f"{answer['price']!r} ± {_number(answer['se'])}")]
    if answer["ci95"] and answer["se"]:
        rows.append(("95 % interval", f"{answer['ci95'][0]:.6g} to {answer['ci95'][1]:.6g}"))
    if answer["n_paths"]:
        rows.append(("paths", f"{answer['n_paths']:,}"))
    rows += [("method", answer["method"]), ("bias", answer["bias"])]
    exact = answer["closed_form"]
    if exact is not None and answer["n_paths"]:
        z = "" if answer["z"] is None else f", z = {answer['z']:+.2f}"
        rows.append(("exact", f"{exact['value']!r}{z} ({exact['method']})"))
    if answer.get("upper"):
        rows.append(("upper bound", f"{answer['upper']['price']!r} ± {_number(answer['upper']['se'])}"))
    for name, greek in answer["greeks"].items():
        value = "not defined" if greek["value"] is None else f"{greek['value']:.6g} ± {_number(greek['se'])}"
        rows.append((name, f"{value}  {greek['method']}, {greek['unit']}"))
    rows += [("warning", warning) for warning in answer["warnings"]]
    return [f"{name:<14} {clean(text)}" for name, text in rows]


def _number(value: float | None, digits: int = 2) -> str:
    return "?" if value is None else f"{value:.{digits}g}"
