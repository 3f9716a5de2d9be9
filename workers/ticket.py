"""The one function that an RQ entry may name, and the entry class that refuses every other.

A ticket says only "this lane has work"; which job that is, the claim decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rq import get_current_job
from rq.job import Job

from service.jobs.tickets import ENTRY
from workers.context import current_context
from workers.perform import perform_next

LARGEST_FIELD_BYTES = 1024
NO_TIMEOUT = -1
READ_FIELDS = frozenset(
    b"data origin description status result_ttl failure_ttl worker_name "
    b"created_at enqueued_at started_at ended_at last_heartbeat".split()
)


class TicketRefusedError(Exception):
    """An entry in the queue isn't a ticket; nothing of it was run."""


def work(lane: str) -> None:
    """Claims the lane's next job and performs it; returns at once when there is none."""
    entry = get_current_job()
    assert entry is not None
    context = current_context()
    if lane != context.lane:
        raise TicketRefusedError(f"a ticket for lane {lane!r} in the queue of lane {context.lane!r}")
    perform_next(context, nonce=entry.id)


class Ticket(Job):
    """An RQ job that runs ``work`` and nothing else, whatever someone wrote into Redis."""

    @property
    def func(self) -> Callable[[str], None]:
        if self.instance is not None or self.func_name != ENTRY or self.kwargs or len(self.args) != 1:
            raise TicketRefusedError(f"entry {self.id} names {self.func_name!r}; only {ENTRY!r} is run")
        return work

    def restore(self, raw_data: Mapping[bytes, bytes]) -> None:
        """Reads only what a ticket has: RQ would import callbacks by name, call webhooks, and retry."""
        super().restore(
            {
                name: value
                for name, value in raw_data.items()
                if name in READ_FIELDS and len(value) <= LARGEST_FIELD_BYTES
            }
        )
        self.timeout = NO_TIMEOUT
