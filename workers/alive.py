"""Whether this machine's workers live: ``python -m workers.alive`` ends with 0 if each lane said so lately.

For health checks of containers, whose host names are their own.
"""

from __future__ import annotations

import json
import socket
import sys

from redis import Redis
from redis.exceptions import RedisError

from service.jobs.connection import connect
from service.jobs.lanes import LANES
from service.jobs.records import key
from service.settings import Settings

SILENT_S = 15.0


def silent_lanes(redis: Redis, host: str) -> set[str]:
    """The lanes of which no worker on this host was heard lately."""
    now, _ = redis.time()
    lanes = set(LANES)
    for name, description in redis.hgetall(key("workers")).items():
        about = json.loads(description)
        seen = redis.zscore(key("workers", about["lane"]), name) or 0
        if about["host"] == host and now - seen / 1000 < SILENT_S:
            lanes.discard(about["lane"])
    return lanes


def main() -> None:
    try:
        with connect(Settings().redis_url, patient=False) as redis:
            silent = silent_lanes(redis, socket.gethostname())
    except RedisError as error:
        sys.exit(f"Redis does not answer: {error}")
    if silent:
        sys.exit(f"silent: {', '.join(sorted(silent))}")


if __name__ == "__main__":
    main()
