"""The process of one lane: ``python -m workers.lane cpu-batch``."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
from types import FrameType

from rq.worker import BaseWorker

from service.blobs import open_store
from service.jobs.lanes import BATCH, QUICK
from service.logs import log_as_json
from service.settings import Settings
from workers.batch import BatchWorker
from workers.context import WorkerContext, set_context
from workers.heartbeat import Heartbeat
from workers.limits import restrict_environment, restrict_process
from workers.memory import default_bound
from workers.quick import QuickWorker

WORKERS: dict[str, type[BatchWorker] | type[QuickWorker]] = {BATCH: BatchWorker, QUICK: QuickWorker}


def worker_name(lane: str) -> str:
    """A name that no other process has, also not one that is restarted with the same process id."""
    return f"{socket.gethostname()}.{lane}.{os.getpid()}.{secrets.token_hex(3)}"


def _leave_early(number: int, frame: FrameType | None) -> None:
    """SIGTERM before the worker listens to it."""
    raise SystemExit(0)


def run_lane(lane: str, settings: Settings) -> None:
    """Works until SIGTERM or SIGINT."""
    signal.signal(signal.SIGTERM, _leave_early)
    memory = default_bound() if settings.worker_memory is None else settings.worker_memory
    restrict_process(memory or None, settings.blob_limit)
    restrict_environment(os.environ)
    context = WorkerContext(settings, lane, worker_name(lane), open_store(settings))
    set_context(context)
    worker: BaseWorker = WORKERS[lane](context)
    heartbeat = Heartbeat(context)
    try:
        heartbeat.start()
        worker.work(logging_level="WARNING")
    finally:
        heartbeat.stop()


if __name__ == "__main__":
    log_as_json()
    run_lane(sys.argv[1], Settings())
