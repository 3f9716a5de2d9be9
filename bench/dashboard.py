"""How the live page copes with a long run: ``python -m bench.dashboard``.

Writes a job of 100,000 steps into a real service, opens its page in Chromium, then adds 100 steps a second
for ten seconds. Prints the seconds until the last step is shown, the bytes received, and the frame times.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/e2e"))

from dashboard_system import System, Worker
from playwright.sync_api import sync_playwright

STEPS = 100_000
FLUSH = 50
LIVE_FLUSHES, LIVE_STEPS = 40, 25
WATCH_FRAMES = """() => {
  window.intervals = [];
  let last = performance.now();
  const next = (now) => { intervals.push(now - last); last = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""


def flush(worker: Worker, first: int, count: int, noise: random.Random) -> None:
    """The events of ``count`` steps, as a worker sends them every quarter of a second."""
    steps = list(range(first, first + count))
    loss = [2 + 3 * math.exp(-step / 9000) + noise.gauss(0, 0.1) for step in steps]
    values = {"loss": loss, "lr": [0.001] * count, "grad_norm": [0.5] * count}
    worker.say(("metric", {"steps": steps, "values": values}))
    if first % 1000 == 1:
        worker.say(("metric", {"steps": [first], "values": {"val_loss": [loss[0] + 0.1]}}))
        worker.sample(first, "to be or not to be " * 20)


def percentiles(values: list[float]) -> dict[str, float]:
    """Median, 95th percentile and highest."""
    ordered = sorted(values)
    return {
        "p50": ordered[len(ordered) // 2],
        "p95": ordered[int(len(ordered) * 0.95)],
        "max": ordered[-1],
    }


def measure(system: System, browser: Any) -> dict[str, Any]:
    """The numbers of one page."""
    noise, worker = random.Random(1), system.start("100,000 steps")
    for first in range(1, STEPS, FLUSH):
        flush(worker, first, FLUSH, noise)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    received: list[float] = []
    network.on("Network.dataReceived", lambda event: received.append(event["dataLength"]))
    began = time.perf_counter()
    page.goto(f"{system.url}/jobs/{worker.job_id}")
    page.locator(f".chart[aria-valuetext^='step {STEPS:,}']").wait_for()
    opened = time.perf_counter() - began
    page.evaluate(WATCH_FRAMES)
    for turn in range(LIVE_FLUSHES):
        flush(worker, STEPS + 1 + turn * LIVE_STEPS, LIVE_STEPS, noise)
        time.sleep(LIVE_STEPS / 100)
    intervals = page.evaluate("intervals")
    worker.finish()
    return {
        "opened_s": round(opened, 2),
        "received_mb": round(sum(received) / 1e6, 2),
        "frame_ms": {name: round(value, 1) for name, value in percentiles(intervals).items()},
    }


def main() -> None:
    """Prints one line of JSON."""
    executable = shutil.which("chromium") or sys.exit("error: no chromium on PATH")
    with (
        tempfile.TemporaryDirectory() as folder,
        System(Path(folder)) as system,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        print(json.dumps(measure(system, browser)))
        browser.close()


if __name__ == "__main__":
    main()
