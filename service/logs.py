"""Logs as JSON lines on stderr, one object a record, safe to read in a terminal."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType

SECRETS = (
    (re.compile(r"(key_[0-9a-z]{1,32})_[0-9A-Za-z]{16,}"), r"\1_…"),
    (re.compile(r"(://[^\s:/@]*):[^\s/@]+@"), r"\1:…@"),
)
_about: ContextVar[Mapping[str, str | int]] = ContextVar("about", default=MappingProxyType({}))
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@contextmanager
def about(**ids: str | int) -> Iterator[None]:
    """Inside, every record of this task or thread says what it is about, as ``job`` or ``request_id``."""
    token = _about.set({**_about.get(), **ids})
    try:
        yield
    finally:
        _about.reset(token)


def be_about(**ids: str | int) -> None:
    """``about`` for the rest of this task, as a request has one of its own."""
    _about.set({**_about.get(), **ids})


def redact(text: str) -> str:
    """The text without the secret parts of API keys and addresses."""
    for form, shown in SECRETS:
        text = form.sub(shown, text)
    return text


class JsonFormatter(logging.Formatter):
    """``{"time", "level", "logger", "pid", "message", "request_id"?, "job"?, "trace"?}``.

    Control characters are escaped by JSON, secrets are left out.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": redact(record.getMessage()),
            **_about.get(),
        }
        if record.exc_info:
            line["trace"] = redact(self.formatException(record.exc_info))
        return json.dumps(line)


class LogLevelError(ValueError):
    """GRADMILL_LOG_LEVEL is no level."""


def log_as_json() -> None:
    """Sends this process's log to stderr from ``GRADMILL_LOG_LEVEL`` on, by default ``WARNING``.

    Raises LogLevelError.
    """
    level = os.environ.get("GRADMILL_LOG_LEVEL") or "WARNING"
    if level.upper() not in LEVELS:
        raise LogLevelError(f"GRADMILL_LOG_LEVEL is {level!r}; it must be one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
