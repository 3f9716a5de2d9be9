"""The version of what the store holds: newer data is refused, older data is migrated step by step."""

from __future__ import annotations

from collections.abc import Callable

from redis import Redis

from service.jobs.records import key

SCHEMA_KEY = key("schema")
VERSION = 1
MIGRATIONS: dict[
    int, Callable[[Redis], None]
] = {}  # version → brings the data of the version before up to it


class SchemaError(RuntimeError):
    """The store was written by a newer release."""


def check_schema(redis: Redis) -> None:
    """Marks an empty store with the version, migrates an older one; SchemaError for a newer one."""
    redis.set(SCHEMA_KEY, VERSION, nx=True)
    found = int(redis.get(SCHEMA_KEY) or VERSION)
    if found > VERSION:
        raise SchemaError(
            f"the data in Redis has schema {found}, this release knows {VERSION}: install the newer release, "
            "or give this one a Redis database of its own"
        )
    for version in range(found + 1, VERSION + 1):
        MIGRATIONS[version](redis)
        redis.set(SCHEMA_KEY, version)
