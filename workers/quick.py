"""The worker for short jobs: one warm process that never forks, so that models stay loaded."""

from __future__ import annotations

from rq import SimpleWorker

from workers.context import WorkerContext
from workers.deaf import Deaf
from workers.handlers import find_handler
from workers.leaving import exit_in_time
from workers.rq_options import rq_options


class QuickWorker(Deaf, SimpleWorker):
    """Runs the lane's tickets one after the other in this process."""

    def __init__(self, context: WorkerContext) -> None:
        super().__init__(**rq_options(context))
        self._context = context
        find_handler("sample")  # loads the engine now, not while the first client waits

    def handle_warm_shutdown_request(self) -> None:
        exit_in_time()
        self._context.stop.set()
