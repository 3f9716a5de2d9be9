"""The commands in docs/api.md do what the page says, and its tables are those of the code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from api_rig import Api

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text()
ADDRESS = "http://127.0.0.1:8000"
STARTS = "gradmill up\n"  # what the fixture has done, on a free port


@pytest.fixture
def system(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A running system, and the environment in which the page's commands find it."""
    environment = {**os.environ, "GRADMILL_DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "-m", "service.cli", "up", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        folder = str(Path(sys.executable).parent)
        yield {**environment, "GRADMILL_URL": url, "PATH": f"{folder}:{os.environ['PATH']}"}
        process.terminate()


def script() -> str:
    """Every command and program of the page, in its order, as one script."""
    found = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    parts = [body if language == "sh" else f"python - <<'END'\n{body}END\n" for language, body in found]
    assert parts.pop(0) == STARTS
    return "\n".join(parts)


@pytest.mark.slow
def test_half_an_hour_passes_as_it_stands(system: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "README.md").symlink_to(ROOT / "README.md")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script().replace(ADDRESS, system["GRADMILL_URL"])],
        cwd=tmp_path,
        env=system,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert "\n401\n" in said
    assert re.search(r"^id: \d+$", said, re.MULTILINE)
    assert re.search(r"^event: metric$", said, re.MULTILINE)
    assert "event: reset" in said
    assert "goes on from the checkpoint" in said
    assert "model.safetensors: OK" in said
    assert "CompletionUsage(completion_tokens=40" in said
    assert "succeeded ['model.safetensors', 'plan.txt']" in said
    assert (tmp_path / "plan.txt").read_text().startswith("plan: ")


def test_the_table_has_every_operation(api: Api) -> None:
    document = api.http.get("/openapi.json").json()
    operations = {
        f"| `{method.upper()} {path}` | {operation['summary']} |"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert set(re.findall(r"^\| `[A-Z]+ /.*$", PAGE, re.MULTILINE)) == operations


def test_the_example_of_a_refusal_is_one(api: Api) -> None:
    (example,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    spec = {"model": {"name": "bigram"}, "corpus": {"name": "shakespeare"}, "steps": 0}
    answer = api.http.post("/v1/jobs", json={"kind": "train", "spec": spec}).json()
    assert {**answer, "request_id": ""} == {**json.loads(example), "request_id": ""}
