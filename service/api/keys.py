"""Who calls, what they may do, and whose jobs they see."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from service.errors import ForbiddenError, UnauthorisedError
from service.jobs.calls import Limits
from service.jobs.records import key
from service.keys import (
    INDEX,
    KEY_FORM,
    KNOWN_FOR_S,
    SCOPES,
    USED,
    Command,
    Key,
    Scope,
    digest,
    from_json,
    implied,
)
from service.settings import Settings

EVERYONE = "*"
KNOWN_KEPT = 10_000
RECHECK_S = 2.0  # after which the key of an open stream is looked at again
NO_HASH = digest("")  # of no key; what an unknown id is compared with
RESERVED: dict[str, Scope] = {"/v1/keys": "admin", "/v1/blobs": "worker"}
FILE_FORM = "a key is key_<id>_<secret of at least 32 characters>, then its scopes, separated by commas"

log = logging.getLogger(__name__)


class KeyFileError(ValueError):
    """The key file can't be used; the message names the line and the fix."""


@dataclass(frozen=True)
class Principal:
    """``owner`` is written into what the caller makes; ``sees`` is whose things it sees, ``*`` for all."""

    owner: str
    sees: str
    scopes: frozenset[Scope]
    limits: Limits

    def may_see(self, owner: str) -> bool:
        """Whether something of this owner exists for the caller."""
        return self.sees in (EVERYONE, owner)


def required_scope(method: str, path: str) -> Scope:
    """What a key needs for a request: a new route of ``/v1`` is never open by mistake."""
    for prefix, scope in RESERVED.items():
        if path == prefix or path.startswith(f"{prefix}/"):
            return scope
    return "read" if method in ("GET", "HEAD", "OPTIONS") else "submit"


class KeyRing:
    """The keys of the key file and those in Redis. As long as there is none at all, everyone is local."""

    def __init__(self, settings: Settings, fixed: dict[str, Key], redis: Redis) -> None:
        self._default = Limits(settings.queued_limit, settings.running_limit, settings.bytes_limit)
        self._fixed = fixed
        self._redis = redis
        self._known: dict[str, tuple[Key, float]] = {}
        self._open_until = 0.0
        self._local = Principal("local", EVERYONE, implied(["admin", "worker"]), self._default)

    @property
    def has_fixed(self) -> bool:
        """Whether there is a key file, which always has an admin key."""
        return bool(self._fixed)

    async def identify(self, authorization: str | None) -> Principal:
        """Who sends this Authorization header. UnauthorisedError without a valid key, once there are keys."""
        if await self._is_open():
            return self._local
        scheme, _, secret = (authorization or "").partition(" ")
        form = KEY_FORM.fullmatch(secret.strip())
        if authorization is None:
            raise _refusal("Send the header Authorization: Bearer key_<id>_<secret>.")
        if scheme.lower() != "bearer" or form is None:
            raise _refusal("The Authorization header holds no API key: it must be Bearer key_<id>_<secret>.")
        found = self._fixed.get(form[1]) or await self._find(form[1])
        if not hmac.compare_digest(digest(form[0]), found.sha256 if found else NO_HASH) or found is None:
            raise _refusal("This API key is not known here.")
        if found.expires_at and found.expires_at <= time.time() * 1000:
            raise _refusal("This API key has expired.")
        return Principal(
            owner=found.owner,
            sees=EVERYONE if found.is_admin else found.owner,
            scopes=found.scopes,
            limits=replace(self._default, **found.limits),
        )

    async def authorise(self, authorization: str | None, method: str, path: str) -> Principal:
        """``identify`` for a request. ForbiddenError where the key lacks the scope."""
        principal = await self.identify(authorization)
        scope = required_scope(method, path)
        if scope not in principal.scopes:
            raise ForbiddenError(f"This API key lacks the scope {scope!r}.", code="scope")
        return principal

    async def refusal(self, authorization: str | None) -> UnauthorisedError:
        """Returns when a header that was good is so no more: its key has expired or was revoked."""
        while True:
            await asyncio.sleep(RECHECK_S)
            try:
                await self.identify(authorization)
            except UnauthorisedError as refused:
                return refused
            except RedisError:
                log.debug("Redis is away: nothing is known against a key")

    async def change(self, commands: list[Command]) -> None:
        """Adds or removes a key; here that holds at once."""
        async with self._redis.pipeline(transaction=True) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            await pipe.execute()
        self._known.clear()
        self._open_until = 0.0

    async def _is_open(self) -> bool:
        if self._fixed:
            return False
        now = time.monotonic()
        if now >= self._open_until and await self._redis.zcard(INDEX) == 0:
            self._open_until = now + KNOWN_FOR_S
        return now < self._open_until

    async def _find(self, key_id: str) -> Key | None:
        now = time.monotonic()
        known, until = self._known.get(key_id, (None, 0.0))
        if now < until:
            return known
        content = await self._redis.get(key("key", key_id))
        if content is None:
            self._known.pop(key_id, None)
            return None
        with suppress(ResponseError):  # a server that takes no writes now
            await self._redis.hset(USED, key_id, str(round(time.time() * 1000)))
        if len(self._known) >= KNOWN_KEPT:
            self._known.clear()
        found = from_json(content)
        self._known[key_id] = (found, now + KNOWN_FOR_S)
        return found


def _refusal(detail: str) -> UnauthorisedError:
    return UnauthorisedError(detail, headers={"WWW-Authenticate": 'Bearer realm="gradmill"'})


def load_keys(path: Path | None) -> dict[str, Key]:
    """Reads a key file: one key a line and after it its scopes, ``admin`` without any.

    Empty lines and lines that begin with ``#`` are skipped. A key of the file is the owner of what it makes.
    """
    if path is None:
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise KeyFileError(f"GRADMILL_API_KEY_FILE {path}: {error.strerror}") from error
    keys = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        secret, _, named = line.partition(" ")
        form = KEY_FORM.fullmatch(secret)
        wanted = [scope.strip() for scope in (named.strip() or "admin").split(",")]
        scopes = [scope for scope in SCOPES if scope in wanted]
        if form is None or len(scopes) != len(wanted):
            raise KeyFileError(f"{path}, line {number}: {FILE_FORM}; they are {', '.join(SCOPES)}")
        keys[form[1]] = Key(form[1], digest(secret), form[1].removeprefix("key_"), implied(scopes))
    if not any(each.is_admin for each in keys.values()):
        raise KeyFileError(
            f"GRADMILL_API_KEY_FILE {path} holds no admin key: write one key_<id>_<secret> a line"
        )
    return keys
