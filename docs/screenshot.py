"""Makes the README's pictures: starts a system, trains on Shakespeare, photographs the live page.

    python docs/screenshot.py

Needs Chromium on PATH, the package playwright and the built dashboard. Takes a few minutes. The page uses the
fonts of the machine; Inter, where it is installed, is the one the committed pictures show.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from service.client import Client

IMAGES = Path(__file__).parent / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
THEMES = {"light": "dashboard.png", "dark": "dashboard-dark.png"}
VIEWPORT = {"width": 1280, "height": 880}
SPEC: dict[str, Any] = {
    "model": {
        "name": "gpt",
        "embed_dim": 128,
        "num_heads": 4,
        "ff_dim": 256,
        "num_layers": 4,
        "seq_len": 32,
    },
    "corpus": {"name": "shakespeare"},
    "steps": 2000,
    "batch": 32,
    "lr": 0.003,
    "schedule": "cosine",
    "warmup_steps": 50,
    "seed": 42,
    "eval_every": 50,
    "sample_every": 50,
    "sample_tokens": 400,
    "prompts": ["ROMEO:"],
}
PHOTOGRAPHED_STEP = 1500


@contextmanager
def running_system() -> Iterator[str]:
    """``gradmill up`` with a folder of its own; gives its address."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "up", "--port", "0", "--json"],
            env={**os.environ, "GRADMILL_DATA_DIR": folder},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
            process.wait()


def wait_for_step(client: Client, job_id: str, step: int) -> None:
    """Until the job has reached a step. RuntimeError when it ends before."""
    while True:
        job = client.get(job_id)
        if job["progress"] and job["progress"]["step"] >= step:
            return
        if job["error"]:
            raise RuntimeError(f"the job failed: {job['error']['message']}")
        time.sleep(0.5)


def wait_until_shown(page: Any) -> None:
    """Until the page has caught up with the job."""
    chart = page.locator(".chart")
    while float(chart.get_attribute("aria-valuenow")) < PHOTOGRAPHED_STEP:
        page.wait_for_timeout(100)


def photograph(url: str, executable: str) -> None:
    """One picture for each theme."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        for theme, name in THEMES.items():
            page = browser.new_page(
                viewport=VIEWPORT,
                device_scale_factor=2,
                color_scheme=theme,
                locale="en-GB",
                timezone_id="UTC",
            )
            page.goto(url)
            page.locator("main [data-connection=live]").wait_for()
            page.get_by_role("region", name="Sample text").wait_for()
            wait_until_shown(page)
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            page.screenshot(path=IMAGES / name)
            page.close()
        browser.close()


def main() -> None:
    """Writes ``docs/images``."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        sys.exit("error: no Chromium on PATH")
    IMAGES.mkdir(exist_ok=True)
    with running_system() as url, Client(url) as client:
        job_id = client.submit("train", SPEC, name="Shakespeare, 550,977 parameters")["id"]
        wait_for_step(client, job_id, PHOTOGRAPHED_STEP)
        photograph(f"{url}/jobs/{job_id}", executable)
        client.cancel(job_id)


if __name__ == "__main__":
    main()
