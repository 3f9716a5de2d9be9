"""What the compile command reads and prints, without a server."""

from __future__ import annotations

from typing import Any

import click
import pytest

from service.cli.compile import read_input
from service.cli.follow import Picture
from service.cli.stages import LINES_SHOWN, Stages, shortened, span


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("a=f32[2,3]", {"a": {"shape": [2, 3], "dtype": "float32"}}),
        ("a = f32", None),
        ("a=f32", {"a": {"shape": [], "dtype": "float32"}}),
        ("a=f64[]", {"a": {"shape": [], "dtype": "float64"}}),
        ("a=bf16[2, 3]", {"a": {"shape": [2, 3], "dtype": "bfloat16"}}),
        ("i=int64[8]<10", {"i": {"shape": [8], "dtype": "int64", "below": 10}}),
        ("a,b=f32[1]", {name: {"shape": [1], "dtype": "float32"} for name in "ab"}),
        ("a=odd[1]", {"a": {"shape": [1], "dtype": "odd"}}),
        ("a=f32[2", None),
        ("a=f32[-1]", None),
        ("a", None),
        ("", None),
    ],
)
def test_an_input_is_read(text: str, inputs: dict[str, Any] | None) -> None:
    if inputs is None:
        with pytest.raises(click.UsageError, match="must read NAME=DTYPE"):
            read_input(text)
    else:
        assert read_input(text) == inputs


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (1.234e-7, "0.123 µs"),
        (1.5e-5, "15 µs"),
        (2.5e-4, "250 µs"),
        (0.0123, "12.3 ms"),
        (0.5, "500 ms"),
        (2, "2.00 s"),
    ],
)
def test_short_times_have_three_digits(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


def test_long_texts_are_cut_and_hostile_ones_cleaned() -> None:
    lines = shortened("x\x1b[31m\n" * 100).splitlines()
    assert len(lines) == LINES_SHOWN + 1
    assert lines[0] == "    x[31m" and lines[-1] == f"    … {100 - LINES_SHOWN} more lines"


def test_many_programs_end_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    stages, picture = Stages(), Picture("job_1")
    for program, variant, seconds in (
        ("one", "fused", 2e-3),
        ("one", "fused", 1e-3),
        ("two", "C: naive", 1.0),
        ("two", "fused", 5e-3),
    ):
        row = {"program": program, "stage": "timing", "variant": variant, "threads": 1, "seconds": seconds}
        event: Any = {"type": "report", "data": {**row, "median": seconds, "runs": 1}}
        stages.show(picture, event)
    picture.state = "succeeded"
    ended: Any = {"type": "state", "data": {"state": "succeeded"}}
    stages.show(picture, ended)
    head, one, two = capsys.readouterr().out.splitlines()[-5:-2]
    assert head.split("  ")[-1].strip() == "C: naive"
    assert one.split() == ["one", "1", "ms"]
    assert two.split() == ["two", "5", "ms", "1.00", "s"]


def test_stages_are_printed_as_they_come(capsys: pytest.CaptureFixture[str]) -> None:
    stages, picture = Stages(), Picture("job_1")
    for data in (
        {
            "stage": "fusion",
            "kernels": [{"kernel": "dot", "level": 1, "nodes": ["%0 = dot(a, b)"]}],
            "refusals": ["why"],
        },
        {
            "stage": "timing",
            "variant": "fused",
            "threads": 2,
            "seconds": 1e-3,
            "median": 2e-3,
            "runs": 5,
            "moved": 8e6,
        },
        {"stage": "timing", "variant": "numpy", "skipped": "has no erf"},
        {
            "stage": "timing",
            "variant": "torch",
            "threads": None,
            "seconds": 1.0,
            "median": 1.0,
            "runs": 1,
            "difference": 1e-7,
        },
    ):
        event: Any = {"type": "report", "data": {"program": "first", **data}}
        stages.show(picture, event)
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["", "first"]
    assert printed[2:7] == [
        "fusion: 1 kernel",
        "    level 1: dot",
        "        %0 = dot(a, b)",
        "    not fused",
        "        why",
    ]
    assert printed[7] == "timing"
    assert printed[9].split() == ["fused", "2", "1", "ms", "2", "ms", "5", "8.0"]
    assert printed[10] == "    numpy: has no erf"
    assert printed[11].split()[1:2] == ["own"] and printed[11].endswith("differs by 1.0e-07")
