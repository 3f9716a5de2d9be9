"""A worker that was told to stop is gone in time, whatever hangs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

KILL_HORSE_AFTER_S = 8.0
EXIT_AFTER_S = 9.5  # a supervisor waits for 10 s


def after(seconds: float, action: Callable[[], object]) -> None:
    """Does something later unless the process ends before."""
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()


def exit_in_time() -> None:
    """Ends the process by force if it is still there: its Redis may be gone, and its job's lease ends."""
    after(EXIT_AFTER_S, lambda: os._exit(1))
