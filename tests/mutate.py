"""``python tests/mutate.py [name …]``: takes each guard away in a copy of the tree; its test must fail.

Prints the table. Exits with 1 when a test passes without its guard, or does not run.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[1]
PARTS = ("engine", "service", "workers", "tests", "docs", "pyproject.toml", "README.md")  # that tests need
UNNEEDED = shutil.ignore_patterns("__pycache__", "images")
COPIES = 2
TESTS_FAILED = 1  # pytest's exit code; others mean that no test ran, or that pytest itself failed
LONGEST_S = 300


def copy_tree(target: Path) -> Path:
    """Copies what tests need of the tree; ``target`` again."""
    target.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target / part, ignore=UNNEEDED)
        else:
            shutil.copy(ROOT / part, target / part)
    return target


def run_tests(tree: Path, suite: str, tests: Sequence[str]) -> int:
    """pytest's exit code for tests of a suite; all cases of one that has parameters, unless one is named."""
    cases = [f"{suite}::{test}" for test in tests if "[" in test]
    others = [suite, "-k", " or ".join(test for test in tests if "[" not in test)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *(cases or others)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, timeout=LONGEST_S, check=False
    )
    return done.returncode


def end_leftovers(tree: Path) -> None:
    """Kills what a test without its guard left running: programs of this copy of the tree."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if bytes(tree) in command.read_bytes():
                os.kill(int(command.parent.name), signal.SIGKILL)


def failing_suites(tree: Path, chosen: Sequence[Mutation]) -> set[str]:
    """The suites whose tests fail as the tree is, so that their verdicts would mean nothing."""
    tests: dict[str, list[str]] = {}
    for each in chosen:
        tests.setdefault(each.suite, []).append(each.test)
    return {suite for suite, names in tests.items() if run_tests(tree, suite, names) != 0}


def try_mutation(tree: Path, mutation: Mutation) -> str:
    """``killed``, or what is wrong."""
    path = tree / mutation.file
    whole = path.read_text()
    path.write_text(whole.replace(mutation.text, mutation.instead, 1))
    try:
        code = run_tests(tree, mutation.suite, [mutation.test])
    except subprocess.TimeoutExpired:
        return "killed"  # it hangs without the guard
    finally:
        path.write_text(whole)
        end_leftovers(tree)
    return {0: "SURVIVES", TESTS_FAILED: "killed"}.get(code, f"DOES NOT RUN ({code})")


def main() -> None:
    """Tries the mutations whose names contain one of the arguments; all without any."""
    chosen = [each for each in MUTATIONS if any(part in each.name for part in sys.argv[1:] or [""])]
    verdicts: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder, ThreadPoolExecutor(COPIES) as pool:
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(COPIES):
            free.put(tree := copy_tree(Path(folder, str(number))))
        broken = failing_suites(tree, chosen)

        def judge(mutation: Mutation) -> str:
            if mutation.suite in broken:
                return "FAILS AS IT IS"
            tree = free.get()
            try:
                return try_mutation(tree, mutation)
            finally:
                free.put(tree)

        for mutation, verdict in zip(chosen, pool.map(judge, chosen), strict=True):
            print(f"{verdict:22} {mutation.name:52} {mutation.test}", flush=True)
            verdicts.append(verdict)
    killed = verdicts.count("killed")
    print(f"{killed} of {len(verdicts)} guards have a test that fails without them")
    sys.exit(killed != len(verdicts))


if __name__ == "__main__":
    main()
