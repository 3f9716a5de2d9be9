"""API keys: who calls, and whose jobs they see."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from pathlib import Path

from service.errors import UnauthorisedError

KEY_FORM = re.compile(r"key_([0-9a-z]{1,32})_([0-9A-Za-z]{32,128})")
EVERYONE = "*"


class KeyFileError(ValueError):
    """The key file can't be used; the message names the line and the fix."""


@dataclass(frozen=True)
class Principal:
    """``owner`` is written into what the caller makes; ``scope`` is whose things it sees, ``*`` for all."""

    owner: str
    scope: str

    def may_see(self, owner: str) -> bool:
        """Whether something of this owner exists for the caller."""
        return self.scope in (EVERYONE, owner)


LOCAL = Principal("local", EVERYONE)


class KeyRing:
    """The keys of the key file, as hashes; each of them sees everything. Without keys everyone is local."""

    def __init__(self, hashes: dict[str, bytes]) -> None:
        self._hashes = hashes

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def identify(self, authorization: str | None) -> Principal:
        """Who sends this Authorization header. UnauthorisedError without a valid key, where keys are set."""
        if not self._hashes:
            return LOCAL
        scheme, _, secret = (authorization or "").partition(" ")
        form = KEY_FORM.fullmatch(secret.strip())
        if scheme.lower() != "bearer" or form is None:
            raise _refusal("Send the header Authorization: Bearer key_<id>_<secret>.")
        expected = self._hashes.get(form[1], b"")
        if not hmac.compare_digest(_digest(secret.strip()), expected):
            raise _refusal("This API key is not known here.")
        return Principal(form[1], EVERYONE)


def _refusal(detail: str) -> UnauthorisedError:
    return UnauthorisedError(detail, headers={"WWW-Authenticate": 'Bearer realm="gradmill"'})


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def load_keys(path: Path | None) -> KeyRing:
    """Reads a key file: one key a line, empty lines and lines that begin with ``#`` are skipped."""
    if path is None:
        return KeyRing({})
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise KeyFileError(f"GRADMILL_API_KEY_FILE {path}: {error.strerror}") from error
    hashes = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        form = KEY_FORM.fullmatch(line)
        if form is None:
            raise KeyFileError(f"{path}, line {number}: a key is key_<id>_<secret of at least 32 characters>")
        hashes[form[1]] = _digest(line)
    if not hashes:
        raise KeyFileError(f"GRADMILL_API_KEY_FILE {path} holds no key: write one key_<id>_<secret> a line")
    return KeyRing(hashes)
