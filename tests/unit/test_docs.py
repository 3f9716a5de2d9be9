"""The pages on settings and on the command line say what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from engine.pricing.analytic.table import METHODS
from engine.pricing.spec.models import MODEL_NAMES
from engine.pricing.spec.products import NAMES, PRODUCTS
from service.cli.app import COMMANDS
from service.cli.exits import Exit
from service.settings import Settings

ROOT = Path(__file__).parents[2]
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
CLI = (ROOT / "docs" / "cli.md").read_text()
PRICING = (ROOT / "docs" / "pricing.md").read_text()


def shown(default: Any) -> str:
    """A default as the page has it."""
    if default in (None, (), PydanticUndefined):
        return "none"
    return f"`{default}`"


def setting_rows() -> list[str]:
    return [
        f"| `GRADMILL_{name.upper()}` | {shown(field.default)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]


def test_the_page_lists_every_setting_with_its_default() -> None:
    listed = re.findall(r"^\| `GRADMILL_\w+` \|.*$", SETTINGS.partition("## Read elsewhere")[0], re.MULTILINE)
    assert listed == setting_rows()


def test_the_page_lists_every_other_variable_that_the_code_reads() -> None:
    known = {f"GRADMILL_{name.upper()}" for name in Settings.model_fields}
    read: set[str] = set()
    for package in ("engine", "service", "workers"):
        for path in (ROOT / package).rglob("*.py"):
            read |= set(re.findall(r'["\'](GRADMILL_[A-Z_]+)["\']', path.read_text()))
    listed = re.findall(r"^\| `(\w+)` \|", SETTINGS.partition("## Read elsewhere")[2], re.MULTILINE)
    assert read - known <= set(listed)
    assert {name for name in listed if name.startswith("GRADMILL_")} <= read


def test_the_page_lists_every_command_with_its_summary() -> None:
    listed = re.findall(r"^\| `gradmill (\w+)` \| (.*) \|$", CLI, re.MULTILINE)
    assert dict(listed) == COMMANDS


def test_the_tests_that_the_pages_name_are_there() -> None:
    there = set()
    for path in (ROOT / "tests").rglob("*.py"):
        there |= set(re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE))
    for page in (ROOT / "docs").glob("*.md"):
        named = set(re.findall(r"`(test_\w+)`", page.read_text()))
        assert named <= there, page.name


def test_the_page_lists_every_exit_code() -> None:
    listed = re.findall(r"^\| (\d+) \|", CLI, re.MULTILINE)
    assert [int(code) for code in listed] == [code.value for code in Exit]


def test_the_page_on_prices_lists_every_exact_method_with_its_source() -> None:
    rows = [
        f"| `{NAMES[product]}` | {MODEL_NAMES[model]} | {method.name} | {method.source} |"
        for (product, model), methods in METHODS.items()
        for method in methods
    ]
    table = PRICING.partition("## Exact prices")[2].partition("\n### ")[0]
    assert re.findall(r"^\| .*\|$", table, re.MULTILINE)[2:] == rows


def test_the_page_on_prices_lists_every_instrument() -> None:
    table = PRICING.partition("| instrument | its fields |")[2].partition("\n\n")[0]
    listed = [
        name
        for row in re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    ]
    assert sorted(listed) == sorted(PRODUCTS)
