"""The display of a compile job: what each stage made of the program, and a table of timings."""

from __future__ import annotations

from typing import Any

import click

from service.cli.follow import Picture, state_line
from service.cli.text import clean
from service.wire import Event

LINES_SHOWN = 60  # of a text; the job's artifacts have all of it
TABLE = "    {:<24} {:>7} {:>10} {:>10} {:>6} {:>9}  {}"


class Stages:
    """Plain lines on stdout, a paragraph a stage."""

    def __init__(self) -> None:
        self._program = ""
        self._in_table = False
        self._best: dict[str, dict[str, float]] = {}  # seconds by program and variant

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def show(self, picture: Picture, event: Event) -> None:
        kind, data = event["type"], event["data"]
        if kind == "state":
            if picture.state == "succeeded" and len(self._best) > 1:
                click.echo(f"\n{summary(self._best)}\n")
            click.echo(state_line(picture))
        elif kind == "log":
            click.echo(f"{data['level']}: {clean(data['message'])}")
        elif kind == "report":
            self._report(data)

    def _report(self, data: dict[str, Any]) -> None:
        if data["program"] != self._program:
            self._program = data["program"]
            click.echo(f"\n{clean(self._program)}")
        if data["stage"] == "timing":
            self._timing(data)
            return
        self._in_table = False
        click.echo(HEADS[data["stage"]](data))
        if data["stage"] in ("graph", "code") and not self._program:  # of many programs the artifacts have it
            click.echo(shortened(data["text"]))

    def _timing(self, row: dict[str, Any]) -> None:
        if not self._in_table:
            self._in_table = True
            click.echo("timing")
            click.echo(TABLE.format("", "threads", "best", "median", "runs", "GB/s", ""))
        if "skipped" in row:
            click.echo(f"    {row['variant']}: {clean(row['skipped'])}")
            return
        best = self._best.setdefault(self._program, {})
        best[row["variant"]] = min(row["seconds"], best.get(row["variant"], row["seconds"]))
        rate = f"{row['moved'] / row['seconds'] / 1e9:.1f}" if row.get("moved") else ""
        threads = "own" if row["threads"] is None else row["threads"]
        cells = (span(row["seconds"]), span(row["median"]), row["runs"], rate)
        click.echo(TABLE.format(clean(row["variant"]), threads, *cells, difference(row)).rstrip())


def summary(best: dict[str, dict[str, float]]) -> str:
    """The quickest run of each variant, a program a line."""
    variants = list(dict.fromkeys(variant for times in best.values() for variant in times))
    variants.sort(key=lambda variant: variant.startswith("C: "))  # of products alone
    width = max(len(variant) for variant in variants) + 2
    lines = ["best of each".ljust(16) + "".join(f"{clean(variant):>{width}}" for variant in variants)]
    for program, times in best.items():
        cells = [span(times[variant]) if variant in times else "" for variant in variants]
        lines.append(f"{clean(program):<16}" + "".join(f"{cell:>{width}}" for cell in cells).rstrip())
    return "\n".join(lines)


def difference(row: dict[str, Any]) -> str:
    """How far another library's result is from ours."""
    found = row.get("difference", 0.0)
    if found is None:
        return "another shape"
    return f"differs by {found:.1e}" if found else "same result" if "difference" in row else ""


def span(seconds: float) -> str:
    """A short time: ``12.3 µs``, ``4.56 ms``, ``1.23 s``."""
    for unit, size in (("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * size:
            return f"{seconds / size:.3g} {unit}" if seconds < 100 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.2f} s"


def shortened(text: str) -> str:
    """The first lines of a text, indented."""
    lines = clean(text, lines=True).rstrip("\n").split("\n")
    shown = [f"    {line}".rstrip() for line in lines[:LINES_SHOWN]]
    if len(lines) > LINES_SHOWN:
        shown.append(f"    … {len(lines) - LINES_SHOWN} more lines")
    return "\n".join(shown)


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def fusion(data: dict[str, Any]) -> str:
    lines = [f"fusion: {plural(len(data['kernels']), 'kernel')}"]
    for kernel in data["kernels"][:LINES_SHOWN]:
        lines += [
            f"    level {kernel['level']}: {clean(kernel['kernel'])}",
            *[f"        {clean(node)}" for node in kernel["nodes"]],
        ]
    if data["refusals"]:
        lines += ["    not fused", *[f"        {clean(reason)}" for reason in data["refusals"][:LINES_SHOWN]]]
    return "\n".join(lines)


def build(data: dict[str, Any]) -> str:
    how = (
        "from the cache"
        if data["cached"]
        else f"{plural(data['built'], 'library').replace('ys', 'ies')} built"
    )
    moved = f"moves {data['moved'] / 1e6:,.3g} MB, {data['moved_unfused'] / 1e6:,.3g} MB without fusion"
    return (
        f"build: {span(data['seconds'])}, {how} by {clean(data['compiler']).rpartition(': ')[2]}\n    {moved}"
    )


def profile(data: dict[str, Any]) -> str:
    lines = ["kernels"]
    for each in data["kernels"][:LINES_SHOWN]:
        lines.append(
            f"    {clean(each['kernel']):<24} {span(each['seconds']):>10}  bound {span(each['bound'])}"
        )
    return "\n".join(lines)


HEADS = {
    "graph": lambda data: f"graph: {plural(data['nodes'], 'node')}",
    "fusion": fusion,
    "code": lambda data: f"code: {plural(data['lines'], 'line')} of C",
    "build": build,
    "verify": lambda data: f"verify: {clean(data['text'])}",
    "profile": profile,
}
