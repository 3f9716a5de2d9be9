"""The commands and the code in README.md do what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ADDRESS = "http://127.0.0.1:8000"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A running system, and the environment in which the tour's commands find it."""
    data = tmp_path_factory.mktemp("tour")
    environment = {**os.environ, "GRADMILL_DATA_DIR": str(data)}
    command = [sys.executable, "-m", "service.cli", "up", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        folder = str(Path(sys.executable).parent)
        yield {**environment, "GRADMILL_URL": url, "PATH": f"{folder}:{os.environ['PATH']}"}
        process.terminate()


def test_the_tour_runs_as_it_stands(system: dict[str, str]) -> None:
    tour = [block for block in blocks("sh") if "make " not in block]
    script = "\n".join(tour).replace(ADDRESS, system["GRADMILL_URL"])
    script = script.replace("source .venv/bin/activate\n", "")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=ROOT,
        env=system,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ROMEO:" in done.stdout
    assert '"object":"text_completion"' in done.stdout.replace(" ", "")
    assert '"estimate"' in done.stdout


def test_the_python_example_learns_xor() -> None:
    (example,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 0.05


def test_links_lead_to_files_that_exist() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", README)
    assert links
    assert not [link for link in links if not (ROOT / link).exists()]


def test_every_make_target_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {match for block in blocks("sh") for match in re.findall(r"^make (\S+)", block, re.MULTILINE)}
    assert targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
