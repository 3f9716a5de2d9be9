"""What may import what: the engine stands alone, the service sees only its light spec checks."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINE_DEPENDENCIES = {"engine", "cffi", *sys.stdlib_module_names}
LIGHT_ENGINE_MODULES = {
    "engine.core.dtype",
    "engine.core.work",
    "engine.errors",
    "engine.expression",
    "engine.expression.presets",
    "engine.expression.tensors",
    "engine.graph_fields",
    "engine.graph_json",
    "engine.numerics",
    "engine.models.config",
    "engine.pricing.cost",
    "engine.pricing.limits",
    "engine.pricing.payoff_language",
    "engine.pricing.spec",
}


def imported_modules(package: str) -> Iterator[tuple[Path, str]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                yield path, node.module


def test_the_engine_imports_only_cffi_and_the_standard_library() -> None:
    strangers = {
        f"{path.relative_to(ROOT)}: {module}"
        for path, module in imported_modules("engine")
        if module.split(".")[0] not in ENGINE_DEPENDENCIES
    }
    assert not strangers


def test_the_service_imports_only_the_engines_light_modules() -> None:
    strangers = {
        f"{path.relative_to(ROOT)}: {module}"
        for path, module in imported_modules("service")
        if module.split(".")[0] == "engine" and module not in LIGHT_ENGINE_MODULES
    }
    assert not strangers


@pytest.mark.parametrize("package", ["service", "engine"])
def test_nobody_below_imports_the_workers(package: str) -> None:
    strangers = {str(path) for path, module in imported_modules(package) if module.split(".")[0] == "workers"}
    assert not strangers


def test_the_spec_checks_load_no_native_code() -> None:
    heavy = "('cffi', '_cffi', 'engine.devices', 'engine.tensor')"
    modules = ", ".join(sorted(LIGHT_ENGINE_MODULES))
    code = f"import sys, {modules}; print([m for m in sys.modules if m.startswith({heavy})])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert loaded.stdout.strip() == "[]"


def test_no_file_grows_beyond_800_lines() -> None:
    suffixes = {".py", ".c", ".h", ".ts", ".svelte", ".lua"}
    folders = ("engine", "service", "workers", "web/src", "tests", "bench")
    long = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and len(path.read_text().splitlines()) > 800
    }
    assert not long
