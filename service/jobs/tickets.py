"""Tickets: RQ entries that name a lane and nothing else.

The only function that an entry may name is ``workers.ticket.work``; its one argument is the lane. Whoever
imports RQ must import this module first, since RQ reads its key prefix from the environment when imported.
"""

from __future__ import annotations

import os

os.environ["RQ_KEY_PREFIX"] = "gradmill:rq"

from redis import Redis
from rq import Queue
from rq.defaults import RQ_KEY_PREFIX
from rq.serializers import JSONSerializer

from service.jobs.calls import lane_state, run

ENTRY = "workers.ticket.work"
if RQ_KEY_PREFIX != "gradmill:rq":
    raise ImportError(
        f"RQ was imported with the key prefix {RQ_KEY_PREFIX!r}; import service.jobs.tickets before rq"
    )


def queue(redis: Redis, lane: str) -> Queue:
    """The RQ queue of a lane. The connection must return bytes."""
    return Queue(lane, connection=redis, serializer=JSONSerializer)


def push(redis: Redis, lane: str, number: int) -> None:
    """Enqueues tickets for a lane; surplus ones are harmless."""
    target = queue(redis, lane)
    for _ in range(number):
        target.enqueue(ENTRY, args=[lane], job_timeout=-1, result_ttl=0, failure_ttl=3600)


def wake(redis: Redis, lane: str) -> int:
    """Tops the lane's tickets up to min(queued, 2 x live workers); returns how many were pushed."""
    missing = run(redis, lane_state(lane)).missing_tickets
    push(redis, lane, missing)
    return missing
