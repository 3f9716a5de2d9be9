"""Nothing that comes from outside is unpickled, unpacked, evaluated or given to a shell."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("engine", "service", "workers")
# Files of its own private folder, whose content is hashed and may name classes of the engine only.
PICKLES = {"engine/compiler/plan_cache.py"}
UNPICKLING = {"pickle", "dill", "cloudpickle", "shelve", "marshal", "jsonpickle"}
UNPACKING = {"zipfile", "tarfile", "shutil.unpack_archive"}
CALLS = {"eval", "exec", "__import__"}
SHELLS = {"system", "popen", "getoutput", "getstatusoutput"}


def trees() -> dict[str, ast.Module]:
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


TREES = trees()


def importers(modules: set[str]) -> set[str]:
    found = set()
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            names = (
                {alias.name for alias in node.names}
                if isinstance(node, ast.Import)
                else {node.module or ""}
                if isinstance(node, ast.ImportFrom)
                else set()
            )
            if {name.partition(".")[0] for name in names} & modules:
                found.add(path)
    return found


def test_nothing_is_unpickled_but_the_plan_cache() -> None:
    assert importers(UNPICKLING) == PICKLES


def test_no_archive_is_unpacked() -> None:
    assert importers(UNPACKING) == set()


def test_no_text_becomes_code() -> None:
    found = {
        f"{path}:{node.lineno} {node.func.id}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS
    }
    assert found == set()


def test_no_command_goes_through_a_shell() -> None:
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            through_shell = [each for each in node.keywords if each.arg == "shell"]
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            of_os = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
            assert not through_shell, f"{path}:{node.lineno}"
            assert not (of_os and node.func.value.id in ("os", "subprocess") and called in SHELLS), path
