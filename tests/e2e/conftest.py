"""Fixtures of the browser tests: one service and one Chromium a module, a fresh page for each test.

Playwright's event loop runs in this thread as long as the browser does, so neither outlives its module.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from dashboard_system import Proxy, System

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "service/static/index.html"
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, headless. Tests are skipped where it, playwright or the built dashboard is absent."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    executable = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if executable is None:
        pytest.skip("needs Chromium on PATH")
    if not BUILT.is_file():
        pytest.skip("needs the built dashboard: make web")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, headless=True, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shared_system(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The service that all tests use, each with jobs of its own."""
    with System(tmp_path_factory.mktemp("dashboard")) as system:
        yield system


@pytest.fixture
def system(shared_system: System) -> Iterator[System]:
    """The service; jobs that a test leaves unfinished are ended."""
    yield shared_system
    shared_system.end_all()


@pytest.fixture
def start_lane(system: System) -> Iterator[Callable[[str], None]]:
    """Starts a real worker of a lane."""
    with ExitStack() as stack:

        def start(lane: str) -> None:
            environment = {
                **os.environ,
                **system.environment,
                "PYTHONPATH": str(ROOT),
                "GRADMILL_THREADS": "1",
            }
            command = [sys.executable, "-m", "workers.lane", lane]
            process = stack.enter_context(subprocess.Popen(command, env=environment, cwd=ROOT))
            stack.callback(process.terminate)

        yield start


@pytest.fixture
def proxy(system: System) -> Iterator[Proxy]:
    """A relay to the service that can cut connections."""
    proxy = Proxy(system.port)
    yield proxy
    proxy.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages in contexts of their own; none may throw an error, open a dialog or break the policy."""
    contexts: list[Any] = []
    faults: list[str] = []

    def open_page(url: str, *, width: int = 1200, before: str = "", **options: Any) -> Any:
        options = {
            "locale": "en-GB",
            "timezone_id": "UTC",
            "viewport": {"width": width, "height": 900},
        } | options
        context = browser.new_context(**options)
        contexts.append(context)
        if before:
            context.add_init_script(before)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("dialog", refuse)
        page.on("console", note)
        page.goto(url)
        return page

    def refuse(dialog: Any) -> None:
        faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def note(message: Any) -> None:
        if "Content Security Policy" in message.text:
            faults.append(f"policy: {message.text}")

    yield open_page
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture(scope="module")
def axe_source() -> str:
    """The accessibility checker's text."""
    if not AXE.is_file():
        pytest.skip("needs axe-core: npm ci in web/")
    return AXE.read_text()
