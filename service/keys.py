"""API keys as they are stored: never the secret, only its hash.

A key is the text ``key_<id>_<secret>``, shown once. Its record is JSON at ``gradmill:key:key_<id>``; its id
stands in ``gradmill:keys:*``, an admin's also in ``gradmill:keys:admin``, and when it was last used (ms) in
``gradmill:keys:used``.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from service.ids import new_id
from service.jobs.records import key

KEY_FORM = re.compile(r"(key_[0-9a-z]{1,32})_([0-9A-Za-z]{32,128})")
SECRET_BYTES = 32
KNOWN_FOR_S = 1.0  # for which a process may go on with what it knows of the keys
Command = tuple[str | int, ...]
Scope = Literal["read", "submit", "admin", "worker"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
IMPLIED: dict[Scope, frozenset[Scope]] = {"admin": frozenset({"read", "submit"})}
INDEX, ADMINS, USED = key("keys", "*"), key("keys", "admin"), key("keys", "used")


@dataclass(frozen=True)
class Key:
    """What is known of a key. Times are milliseconds since the epoch; ``expires_at`` 0: never.

    ``limits`` holds those of ``Limits`` that differ from the settings.
    """

    id: str
    sha256: str
    owner: str
    scopes: frozenset[Scope]
    name: str = ""
    created_at: int = 0
    expires_at: int = 0
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_admin(self) -> bool:
        """Whether it may do everything, for everyone."""
        return "admin" in self.scopes


def digest(secret: str) -> str:
    """The hash under which a whole key is kept. Its 256 random bits need no slow one."""
    return hashlib.sha256(secret.encode()).hexdigest()


def implied(scopes: Collection[Scope]) -> frozenset[Scope]:
    """The scopes, and those that they include."""
    return frozenset(scopes).union(*(IMPLIED.get(scope, frozenset()) for scope in scopes))


def new_key(
    scopes: Collection[Scope],
    *,
    name: str = "",
    owner: str = "",
    lives_s: int = 0,
    limits: Mapping[str, int] | None = None,
) -> tuple[Key, str]:
    """A new key and its secret text. Without an owner it is its own: nobody else sees what it makes."""
    key_id = new_id("key")
    secret = f"{key_id}_{secrets.token_hex(SECRET_BYTES)}"
    now = time.time_ns() // 1_000_000
    made = Key(
        id=key_id,
        sha256=digest(secret),
        owner=owner or key_id.removeprefix("key_"),
        scopes=implied(scopes),
        name=name,
        created_at=now,
        expires_at=now + 1000 * lives_s if lives_s else 0,
        limits=dict(limits or {}),
    )
    return made, secret


def to_json(made: Key) -> str:
    """The record of a key."""
    return json.dumps({**asdict(made), "scopes": sorted(made.scopes)})


def from_json(content: str | bytes) -> Key:
    """A key from its record."""
    record: dict[str, Any] = json.loads(content)
    return Key(**{**record, "scopes": frozenset(record["scopes"])})


def put(made: Key) -> list[Command]:
    """The commands of a transaction that adds a key."""
    commands: list[Command] = [
        ("SET", key("key", made.id), to_json(made)),
        ("ZADD", INDEX, 0, made.id),
    ]
    return [*commands, ("ZADD", ADMINS, 0, made.id)] if made.is_admin else commands


def drop(key_id: str) -> list[Command]:
    """The commands of a transaction that removes a key."""
    return [
        ("DEL", key("key", key_id)),
        ("ZREM", INDEX, key_id),
        ("ZREM", ADMINS, key_id),
        ("HDEL", USED, key_id),
    ]
