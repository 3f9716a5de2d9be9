"""Identifiers: a prefix and a UUIDv7 (RFC 9562) in 26 characters of base32, in order of creation."""

from __future__ import annotations

import re
import secrets
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: sorts as the number does, no i, l, o, u
LENGTH = 26
PAIRS = tuple(first + second for first in ALPHABET for second in ALPHABET)
SHIFTS = range(5 * (LENGTH - 2), -1, -10)  # of the pairs of digits
_PATTERN = re.compile(rf"[a-z]+_[0-7][{ALPHABET}]{{{LENGTH - 1}}}")


def _uuid7() -> int:
    """128 bits: milliseconds, then twelve bits of the fraction of the millisecond, then 62 random bits."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    fraction = (rest << 12) // 1_000_000
    return milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | secrets.randbits(62)


def _text(prefix: str, number: int) -> str:
    return f"{prefix}_{''.join([PAIRS[number >> shift & 1023] for shift in SHIFTS])}"


def new_id(prefix: str) -> str:
    """A new identifier such as ``job_06avh5s1c8e73p2r4n9k0xw5tz``."""
    return _text(prefix, _uuid7())


def lowest_id(prefix: str, milliseconds: int) -> str:
    """What is not above any identifier made at this time since the epoch or later."""
    return _text(prefix, min(max(milliseconds, 0), 2**48 - 1) << 80)


def is_id(text: str, prefix: str) -> bool:
    """Whether a text has the form of an identifier with this prefix."""
    return text.startswith(f"{prefix}_") and _PATTERN.fullmatch(text) is not None
