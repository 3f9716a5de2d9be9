"""Viewers of event streams that cost the measuring process little: they only note when bytes came."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from typing import cast

from bench.service_system import request

SEQ = re.compile(rb"\nid: (\d+)\n")


class Watch(asyncio.Protocol):
    """One stream. Chunks are noted as (when, bytes); what is in them is read afterwards."""

    def __init__(self) -> None:
        self._chunks: list[tuple[float, bytes]] = []
        self._wanted: tuple[bytes, asyncio.Future[float]] | None = None
        self._recent = b""
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int) -> Watch:
        _, made = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def follow(self, job: str) -> None:
        """Asks for a job's stream from its first event on."""
        assert self._transport is not None
        self._transport.write(request("GET", f"/v1/jobs/{job}/events", Accept="text/event-stream"))

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self._chunks.append((now, data))
        if self._wanted is not None:
            self._recent += data
            text, seen = self._wanted
            if text in self._recent and not seen.done():
                seen.set_result(now)

    async def saw(self, text: bytes) -> float:
        """When the text had come."""
        so_far = b"".join(data for _, data in self._chunks)
        if text in so_far:
            return next(
                when
                for i, (when, _) in enumerate(self._chunks)
                if text in b"".join(data for _, data in self._chunks[: i + 1])
            )
        seen: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._recent, self._wanted = so_far, (text, seen)
        found = await seen
        self._wanted = None
        return found

    def delays(self, appended: Mapping[int, float]) -> Iterator[float]:
        """Seconds from append to arrival of each event; AssertionError if one came twice or was left out."""
        last, rest = 0, b""
        for when, data in self._chunks:
            whole, cut, rest = (rest + data).rpartition(b"\n\n")
            if not cut:
                continue
            for found in SEQ.finditer(whole):
                seq = int(found[1])
                assert seq == last + 1, f"event {seq} after {last}"
                last = seq
                if seq in appended:
                    yield when - appended[seq]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
