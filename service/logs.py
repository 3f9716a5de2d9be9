"""Logs as JSON lines on stderr, one object a record, safe to read in a terminal."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime


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


def log_as_json() -> None:
    """Sends this process's log to stderr from ``GRADMILL_LOG_LEVEL`` on, by default ``WARNING``."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=os.environ.get("GRADMILL_LOG_LEVEL", "WARNING").upper(), handlers=[handler])
