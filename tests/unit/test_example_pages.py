"""Pages show what their code prints. ``python tests/unit/test_example_pages.py`` writes them anew."""

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

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "compiler.md", DOCS / "engine.md", DOCS / "regions.md")
PAIR = re.compile(r"```python\n(?P<code>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)
EDGES = re.compile(r"[ \t]+$", re.MULTILINE)


def pairs(page: Path) -> list[tuple[str, str]]:
    return [(found["code"], found["output"]) for found in PAIR.finditer(page.read_text())]


def printed(code: str, names: dict[str, Any]) -> str:
    """What a block prints; later blocks go on with its names."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "example", "exec"), names)
    return EDGES.sub("", out.getvalue()).rstrip("\n") + "\n"


@pytest.mark.skipif(find_toolchain() is None, reason="no C compiler here")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_shows_what_its_code_prints(page: Path) -> None:
    names: dict[str, Any] = {}
    for code, output in pairs(page):
        assert printed(code, names) == output, f"run `python {__file__}` to write the page anew:\n{code}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_code_is_tried(page: Path) -> None:
    assert len(pairs(page)) == page.read_text().count("```python\n") > 3


def test_the_commands_are_commands() -> None:
    lines = re.findall(r"^gradmill compile (.*)$", PAGES[0].read_text(), re.MULTILINE)
    assert lines
    for line in lines:
        with command.make_context("compile", shlex.split(line)) as context:
            assert context.params["expression"]
            assert all(read_input(text) for text in context.params["inputs"])


def rewrite(page: Path) -> None:
    names: dict[str, Any] = {}

    def anew(found: re.Match[str]) -> str:
        return f"```python\n{found['code']}```\n\n```text\n{printed(found['code'], names)}```"

    page.write_text(PAIR.sub(anew, page.read_text()))


if __name__ == "__main__":
    for own in PAGES:
        rewrite(own)
