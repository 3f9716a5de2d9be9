"""RQ's remote controls are none of ours: jobs are cancelled in their record, workers stopped by a signal."""

from __future__ import annotations

from rq.worker import BaseWorker


class Deaf(BaseWorker):
    """A worker to whom nobody can say over Redis that it shall stop, suspend its work or kill its horse."""

    def subscribe(self) -> None:
        """Listens to no channel, so that there is no thread to end either."""

    def check_for_suspension(self, burst: bool) -> None:
        """Goes on, whatever ``rq suspend`` has written."""
