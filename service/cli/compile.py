"""``gradmill compile``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from service.cli.connect import open_client
from service.cli.options import build_spec, read_json_object, spec_options
from service.cli.submission import Submission, submission_options
from service.specs.compile import Compile

DTYPES = {
    "f32": "float32",
    "f64": "float64",
    "bf16": "bfloat16",
    "i32": "int32",
    "i64": "int64",
    "u32": "uint32",
}
INPUT = re.compile(r"(?P<names>[^=]+)=(?P<dtype>\w+)(?:\[(?P<shape>[\d, ]*)\])?(?:<(?P<below>\d+))?")


@click.command("compile")
@click.argument("expression", required=False)
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=DTYPE[SIZES]",
    help="A tensor it reads, as in a=f32[100,100], or a,b=f32[8] for two; i=i64[8]<10 has integers below 10.",
)
@click.option(
    "--graph",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A graph as JSON instead of an expression.",
)
@spec_options(Compile, skip=frozenset({"expression", "inputs", "graph"}))
@submission_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    expression: str | None,
    inputs: tuple[str, ...],
    graph: Path | None,
    spec_file: Path | None,
    settings: tuple[str, ...],
    **given: Any,
) -> int:
    """Compile EXPRESSION, such as "relu(a + b) * c", and see each stage of it and how fast it is.

    Ctrl-C stops watching; the job goes on.
    """
    submission = Submission.taken_from(given)
    spec = build_spec(Compile, given, spec_file, settings)
    if expression is not None:
        spec["expression"] = expression
    for text in inputs:
        spec.setdefault("inputs", {}).update(read_input(text))
    if graph is not None:
        spec["graph"] = read_json_object(graph)
    with open_client(ctx) as client:
        return submission.send(client, "compile", spec)


def read_input(text: str) -> dict[str, dict[str, Any]]:
    """The inputs that an option names: ``a,b=f32[2,3]`` are two of one form, ``a=f32`` is a scalar."""
    form = INPUT.fullmatch(text.strip())
    if form is None:
        raise click.UsageError(f"--input {text!r} must read NAME=DTYPE[SIZES], as in a=f32[100,100]")
    sizes = [size for size in re.split(r"[, ]+", form["shape"] or "") if size]
    own: dict[str, Any] = {
        "shape": [int(size) for size in sizes],
        "dtype": DTYPES.get(form["dtype"], form["dtype"]),
    }
    if form["below"]:
        own["below"] = int(form["below"])
    return {name.strip(): own for name in form["names"].split(",")}
