"""The event log of a job, read from its stream and, where that was trimmed, from its segment blobs.

An event is kept as the bytes that the API sends, ``{"seq", "type", "time", "attempt", "data"}``, encoded once
for all viewers. A segment blob holds the events ``first`` to ``last`` as such lines, without a gap.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from redis import Redis

from service.blobs import BlobStore
from service.jobs.records import Json, Segment, key, text

EVENT_TYPES = frozenset(
    {"state", "metric", "sample", "log", "checkpoint", "stage", "token", "progress", "report"}
)
PAGE = 5_000


def rfc3339(milliseconds: int | float) -> str:
    """A time in milliseconds since the epoch as ``2026-11-29T14:24:38.123Z``."""
    whole, part = divmod(int(milliseconds), 1000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{part:03d}Z"


@dataclass(frozen=True)
class LoggedEvent:
    """One event: its place in the log, its type and its JSON."""

    seq: int
    type: str
    line: bytes

    @property
    def sse(self) -> bytes:
        """The event as a frame of an event stream."""
        return b"id: %d\nevent: %s\ndata: %s\n\n" % (self.seq, self.type.encode(), self.line)

    def named_sse(self, job: str) -> bytes:
        """The event as a frame of a stream of several jobs, ``job`` being the one it is of."""
        head = (job.encode(), self.seq, self.type.encode(), job.encode(), self.line[1:])
        return b'id: %s:%d\nevent: %s\ndata: {"job":"%s",%s\n\n' % head

    def to_dict(self) -> dict[str, Json]:
        """The event's JSON, parsed."""
        event: dict[str, Json] = json.loads(self.line)
        return event


def from_entry(entry_id: bytes, fields: Mapping[bytes, bytes]) -> LoggedEvent:
    """An event from its entry in the stream."""
    seq, type_ = int(entry_id.partition(b"-")[0]), text(fields[b"type"])
    head = f'{{"seq":{seq},"type":"{type_}","time":"{rfc3339(int(fields[b"time"]))}","attempt":'
    return LoggedEvent(seq, type_, b'%s%s,"data":%s}' % (head.encode(), fields[b"attempt"], fields[b"data"]))


def from_line(line: bytes) -> LoggedEvent:
    """An event from a line of a segment."""
    event = json.loads(line)
    return LoggedEvent(event["seq"], event["type"], line)


def stream_key(job: str) -> str:
    """The key of a job's stream."""
    return key("job", job, "events")


def segments_key(job: str) -> str:
    """The key of a job's list of segments."""
    return key("job", job, "segments")


def store_segment(redis: Redis, blobs: BlobStore, job: str, stored_seq: int) -> Segment | None:
    """Writes the events after ``stored_seq`` to a blob; the result goes into ``calls.checkpoint``.

    Returns None when there are none. The caller's next ``stored_seq`` is the segment's ``last``.
    """
    events: list[LoggedEvent] = []
    after = stored_seq
    while True:
        page: Any = redis.xrange(stream_key(job), min=f"{after + 1}-0", count=PAGE)
        events += [from_entry(*entry) for entry in page]
        if len(page) < PAGE:
            break
        after = events[-1].seq
    return Segment(events[0].seq, events[-1].seq, blobs.put(encode(events))) if events else None


def encode(events: Sequence[LoggedEvent]) -> bytes:
    """The content of a segment blob."""
    return b"".join(event.line + b"\n" for event in events)
