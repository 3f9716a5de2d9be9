"""A child that must not outlive its parent.

Linux can tell the kernel so (``PR_SET_PDEATHSIG``). Elsewhere the child is only ended by an explicit stop,
and what it left is found by the lease sweeper.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None


def die_with_parent(number: signal.Signals, parent: int) -> None:
    """Asks the kernel to send ``number`` to the calling process when its parent ends.

    ``parent`` is the parent's process id, taken before the fork: a parent that ended in between is noticed.
    The kernel watches the thread that forked, so fork from a thread that lives as long as the process.
    """
    if _prctl is None:
        return
    _prctl(_PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def dying_with_parent(number: signal.Signals) -> Callable[[], None]:
    """``die_with_parent`` as a ``preexec_fn`` for children of the calling process."""
    parent = os.getpid()
    return lambda: die_with_parent(number, parent)
