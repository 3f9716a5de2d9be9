"""How both workers use RQ: as a transport of tickets, with short intervals and no retries of its own."""

from __future__ import annotations

from typing import Any

from rq.serializers import JSONSerializer

from service.jobs.connection import connect
from workers.context import WorkerContext
from workers.ticket import Ticket


def rq_options(context: WorkerContext) -> dict[str, Any]:
    """Arguments of RQ's worker classes; the connection is patient, so that outages of Redis are sat out."""
    return {
        "queues": [context.lane],
        "name": context.worker,
        "connection": connect(context.settings.redis_url),
        "job_class": Ticket,
        "serializer": JSONSerializer,
        "worker_ttl": 30,
        "job_monitoring_interval": 5,
        "maintenance_interval": 10,
        "log_job_description": False,
    }
