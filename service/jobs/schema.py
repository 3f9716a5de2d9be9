"""The version of what the store holds: newer data is refused, older data is migrated step by step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import islice

from redis import Redis

from service.ids import is_id
from service.jobs.calls import Call, run
from service.jobs.records import key, text
from service.jobs.scripts import script

log = logging.getLogger(__name__)

SCHEMA_KEY = key("schema")
VERSION = 2
LONGEST_MIGRATION_S = 3600
BATCH = 100


class SchemaError(RuntimeError):
    """The store was written by a newer release."""


def check_schema(redis: Redis) -> None:
    """Marks an empty store with the version, migrates an older one; SchemaError for a newer one."""
    redis.set(SCHEMA_KEY, VERSION, nx=True)
    found = stored_version(redis)
    if found > VERSION:
        raise SchemaError(
            f"the data in Redis has schema {found}, this release knows {VERSION}: install the newer release, "
            "or give this one a Redis database of its own"
        )
    if found < VERSION:
        with redis.lock(key("migration"), timeout=LONGEST_MIGRATION_S):  # of several processes one does it
            migrate(redis)


def stored_version(redis: Redis) -> int:
    """The version of what is there."""
    return int(redis.get(SCHEMA_KEY) or VERSION)


def migrate(redis: Redis) -> None:
    """Does the steps that are missing. One that is interrupted is done again, and harmless."""
    for version in range(stored_version(redis) + 1, VERSION + 1):
        MIGRATIONS[version](redis)
        redis.set(SCHEMA_KEY, version)
        log.warning("the data in Redis were brought up to schema %d", version)


def index_jobs_and_files(redis: Redis) -> None:
    """Schema 2: lists by label, expected starts, and the bytes that each owner has stored."""
    for noun in ("job", "file"):
        ids = ids_of(redis, noun)
        while batch := tuple(islice(ids, BATCH)):
            run(redis, Call(script("migrate_2"), batch, int))
    redis.delete(key("migrated", "2"))


def ids_of(redis: Redis, noun: str) -> Iterator[str]:
    """The ids of all records ``<noun>:<id>``; some may come twice."""
    start = len(key(noun, ""))
    for name in redis.scan_iter(key(noun, f"{noun}_*"), count=BATCH):
        if is_id(text(name)[start:], noun):
            yield text(name)[start:]


MIGRATIONS: dict[int, Callable[[Redis], None]] = {2: index_jobs_and_files}
