"""Logs as JSON lines on stderr, one object a record, safe to read in a terminal."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class JsonFormatter(logging.Formatter):
    """``{"time", "level", "logger", "pid", "message", "trace"?}``; control characters are escaped by JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
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
