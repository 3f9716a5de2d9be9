"""The wheel in an empty environment outside the checkout, and the demo on machines with less."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
QUICK = {"RUN_STEPS": "8"}


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """The output of a command that must succeed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GRADMILL_", "PYTHON"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def demo(gradmill: Path, folder: Path, **environment: str) -> str:
    return run(gradmill, "demo", cwd=folder, **QUICK, **environment)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files under version control, so that nothing which lies around gets into the wheel."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("checkout")
    names = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def installed(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A virtual environment that holds the built wheel and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        folder,
        checkout,
        cwd=folder,
    )
    (wheel,) = folder.glob("gradmill-*.whl")
    venv.create(folder / "venv", with_pip=True)
    run(folder / "venv/bin/pip", "install", "--quiet", f"{wheel}[service,local,corpus]", cwd=folder)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_trains_and_answers_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    shown = demo(installed / "venv/bin/gradmill", tmp_path)
    assert "validation loss" in shown
    assert re.search(r"http://127\.0\.0\.1:\d+", shown)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_serves_its_dashboard(installed: Path, tmp_path: Path) -> None:
    gradmill = installed / "venv/bin/gradmill"
    data = {"GRADMILL_DATA_DIR": str(tmp_path / "data")}
    with subprocess.Popen(
        [gradmill, "up", "--port", "0", "--json"],
        cwd=tmp_path,
        env={**os.environ, **data},
        stdout=subprocess.PIPE,
        text=True,
    ) as system:
        assert system.stdout is not None
        url = json.loads(system.stdout.readline())["url"]
        page = httpx.get(url)
        scripts = re.findall(r'src="(/[^"]+\.js)"', page.text)
        assert page.status_code == 200
        assert scripts
        assert all(httpx.get(url + script).status_code == 200 for script in scripts)
        system.terminate()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_runs_with_the_packaged_compiler_alone(tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="the extra `cc` is not installed")
    compiler = f"{sys.executable} -m ziglang cc"
    shown = demo(Path(sys.executable).with_name("gradmill"), tmp_path, CC=compiler)
    assert "no C compiler" not in shown
    assert "validation loss" in shown


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_runs_without_any_compiler(tmp_path: Path) -> None:
    shown = demo(Path(sys.executable).with_name("gradmill"), tmp_path, GRADMILL_CC="none")
    assert "no C compiler was found" in shown
    assert "validation loss" in shown
