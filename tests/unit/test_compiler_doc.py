"""docs/compiler.md shows what its code prints. ``python tests/unit/test_compiler_doc.py`` writes it anew."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from engine.devices.toolchain import find_toolchain
from service.cli.compile import command, read_input

PAGE = Path(__file__).parents[2] / "docs" / "compiler.md"
PAIR = re.compile(r"```python\n(?P<code>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)
EDGES = re.compile(r"[ \t]+$", re.MULTILINE)


def pairs() -> list[tuple[str, str]]:
    return [(found["code"], found["output"]) for found in PAIR.finditer(PAGE.read_text())]


def printed(code: str, names: dict[str, Any]) -> str:
    """What a block prints; later blocks go on with its names."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), names)
    return EDGES.sub("", out.getvalue()).rstrip("\n") + "\n"


@pytest.mark.skipif(find_toolchain() is None, reason="no C compiler here")
def test_the_page_shows_what_its_code_prints() -> None:
    names: dict[str, Any] = {}
    for code, output in pairs():
        assert printed(code, names) == output, f"run `python {__file__}` to write the page anew:\n{code}"


def test_every_block_of_code_is_tried() -> None:
    assert len(pairs()) == PAGE.read_text().count("```python\n") > 10


def test_the_commands_are_commands() -> None:
    lines = re.findall(r"^gradmill compile (.*)$", PAGE.read_text(), re.MULTILINE)
    assert lines
    for line in lines:
        with command.make_context("compile", shlex.split(line)) as context:
            assert context.params["expression"]
            assert all(read_input(text) for text in context.params["inputs"])


def rewrite() -> None:
    names: dict[str, Any] = {}

    def anew(found: re.Match[str]) -> str:
        return f"```python\n{found['code']}```\n\n```text\n{printed(found['code'], names)}```"

    PAGE.write_text(PAIR.sub(anew, PAGE.read_text()))


if __name__ == "__main__":
    rewrite()
