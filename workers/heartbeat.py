"""Says every few seconds that this worker lives, and sends for tickets that its lane lacks."""

from __future__ import annotations

import logging
import os
import socket
import threading

from redis.exceptions import RedisError

from engine.threads import default_threads
from service.jobs import calls, tickets
from service.jobs.connection import connect
from workers.context import WorkerContext

log = logging.getLogger(__name__)

EVERY_S = 5.0
LAST_BEAT_S = 5.0


class Heartbeat:
    """A thread with a connection of its own."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._redis = connect(context.settings.redis_url)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and takes the worker off the list. Also right if ``start`` was interrupted."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout=LAST_BEAT_S)
        try:
            calls.run(self._redis, calls.leave(self._context.worker, self._context.lane))
        except RedisError:
            log.warning("worker %s: could not say goodbye", self._context.worker)
        self._redis.close()

    def _beat(self) -> None:
        lane = self._context.lane
        about = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "threads": default_threads(),
        }
        while True:
            try:
                missing = calls.run(self._redis, calls.heartbeat(self._context.worker, lane, about))
                tickets.push(self._redis, lane, missing)
            except RedisError:
                log.warning("worker %s: Redis does not answer", self._context.worker, exc_info=True)
            if self._ended.wait(EVERY_S):
                return
