"""The worker for long jobs: a fresh process for each, so that its memory is gone afterwards.

Three things that RQ leaves open are closed here. The job's process ends when its parent is killed. On SIGTERM
it is told, so that it stores a checkpoint and gives the job back. When it dies, its parent gives the job back
at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType
from typing import Any

from rq import Worker
from rq.job import Job

from service.jobs import calls, tickets
from service.processes import die_with_parent
from workers.context import WorkerContext
from workers.deaf import Deaf
from workers.leaving import KILL_HORSE_AFTER_S, after, exit_in_time
from workers.memory import oom_kills
from workers.rq_options import rq_options


class BatchWorker(Deaf, Worker):
    """Runs the lane's tickets, each in a forked process, which RQ calls the horse."""

    def __init__(self, context: WorkerContext) -> None:
        super().__init__(**rq_options(context), work_horse_killed_handler=self._give_back)
        self._context = context
        self._parent = os.getpid()
        self._oom_kills = oom_kills()
        # Set before the fork, so that the order isn't lost however early it comes.
        signal.signal(signal.SIGUSR1, self._stop)

    def setup_work_horse_signals(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent(signal.SIGKILL, self._parent)
        signal.signal(signal.SIGTERM, self._stop)

    def handle_warm_shutdown_request(self) -> None:
        exit_in_time()
        if self.horse_pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.horse_pid, signal.SIGUSR1)
            after(KILL_HORSE_AFTER_S, self.kill_horse)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._context.stop.set()

    def _give_back(self, ticket: Job, pid: int, status: int, usage: Any) -> None:
        """The horse has died: what it held goes back to the lane."""
        held = calls.run(self.connection, calls.held(self.name))
        if held is None:
            return
        kills, self._oom_kills = oom_kills() - self._oom_kills, oom_kills()
        code, message = "worker-crashed", f"The job's process ended with {describe(status)}."
        if kills > 0:
            code, message = "out-of-memory", "The kernel ended the job's process: memory ran out."
        released = calls.run(self.connection, calls.release(held.job, held.token, "crash", code, message))
        tickets.push(self.connection, released.lane, released.missing_tickets)


def describe(status: int) -> str:
    """A wait status in words."""
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"code {os.waitstatus_to_exitcode(status)}"
