"""One process for each lane of this machine, started again when it dies: ``python -m workers.supervisor``.

The supervisor itself loads nothing of the engine.
"""

from __future__ import annotations

import argparse
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

from service.jobs.lanes import LANES
from service.logs import log_as_json
from service.processes import dying_with_parent

log = logging.getLogger(__name__)

RESTART_AFTER_S = 1.0
STOP_WITHIN_S = 10.0
LOOK_EVERY_S = 0.1


@dataclass
class Child:
    """A lane's process, or the time from which on it may be started again."""

    lane: str
    process: subprocess.Popen[bytes] | None = None
    start_at: float = 0.0


class Supervisor:
    """``run`` returns after SIGTERM or SIGINT, when no child is left."""

    def __init__(
        self, lanes: Sequence[str], command: Sequence[str] = (sys.executable, "-m", "workers.lane")
    ) -> None:
        self._children = [Child(lane) for lane in lanes]
        self._command = tuple(command)
        self._stopping = threading.Event()

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request_stop)
        while not self._stopping.is_set():
            for child in self._children:
                self._look_after(child)
            self._stopping.wait(LOOK_EVERY_S)
        self._stop_all()

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()

    def _look_after(self, child: Child) -> None:
        if child.process is None:
            if time.monotonic() >= child.start_at:
                child.process = self._start(child.lane)
        elif (code := child.process.poll()) is not None:
            log.warning("the worker of lane %s ended with code %d; another one starts", child.lane, code)
            child.process, child.start_at = None, time.monotonic() + RESTART_AFTER_S

    def _start(self, lane: str) -> subprocess.Popen[bytes]:
        # A process group of its own keeps the terminal's Ctrl-C from the child, which is stopped in order.
        return subprocess.Popen(
            [*self._command, lane],
            stdin=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=dying_with_parent(signal.SIGTERM),  # noqa: PLW1509  (this process has one thread)
        )

    def _stop_all(self) -> None:
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + STOP_WITHIN_S
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lanes", nargs="*", default=LANES, help=f"lanes to serve; default: {' '.join(LANES)}")
    lanes = parser.parse_args().lanes
    if unknown := [lane for lane in lanes if lane not in LANES]:
        parser.error(f"unknown lane {unknown[0]!r}; known are {', '.join(LANES)}")
    log_as_json()
    Supervisor(lanes).run()


if __name__ == "__main__":
    main()
