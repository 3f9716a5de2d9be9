"""HTTP as uvicorn reads it, with the bounds that it lacks: on connections, on heads, and on slow requests.

A request may take ``request_s`` seconds to come, and one more for each kibibyte of it that has come: who
sends a byte now and then is answered 408. Time in which the server itself does not read doesn't count.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.problems import problem_document
from service.api.security import RAW_HEADERS
from service.errors import (
    HeadTooLargeError,
    InvalidRequestError,
    ProblemError,
    RequestTimeoutError,
    UnavailableError,
)

HEAD_LIMIT = 256 * 1024  # bytes; what is smaller reaches the guard, which allows less and says more
SLOWEST = 1024  # bytes a second
RETRY_AFTER_S = 5
LINGER_S = 2.0  # for the client to read why its connection ends
NETWORK_BITS = 64  # of an IPv6 address: the rest is its holder's to choose


@dataclass
class Door:
    """How many connections are open, and from where; at most ``most`` in all and ``most_of_one`` a peer."""

    most: int
    most_of_one: int
    inside: Counter[str] = field(default_factory=Counter)

    def enter(self, peer: str) -> None:
        """Counts a connection. UnavailableError when it is one too many; it must leave all the same."""
        self.inside[peer] += 1
        if self.inside[peer] > self.most_of_one:
            raise _too_many(f"Your address has {self.most_of_one} connections open")
        if self.inside.total() > self.most:
            raise _too_many(f"{self.most} connections are open")

    def leave(self, peer: str) -> None:
        """The connection is closed."""
        self.inside[peer] -= 1
        if self.inside[peer] == 0:
            del self.inside[peer]


def _too_many(what: str) -> UnavailableError:
    detail = f"{what}, which is the most allowed."
    return UnavailableError(detail, code="connections", headers={"Retry-After": str(RETRY_AFTER_S)})


def peer_of(address: str) -> str:
    """What an address counts as: itself, or the network of an IPv6 one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, NETWORK_BITS), strict=False))


class LimitedProtocol(HttpToolsProtocol):
    """A connection that is let in, and ends where a request goes on and on or does not come."""

    def __init__(self, *args: Any, door: Door, request_s: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._door = door
        self._request_s = request_s
        self._peer = ""
        self._in_head = True
        self._received = 0  # bytes of this connection
        self._request_from = 0  # how many had come before the present request, or a little more
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Lets the connection in, or ends it."""
        super().connection_made(transport)
        self._peer = peer_of(self.client[0]) if self.client else ""
        try:
            self._door.enter(self._peer)
        except UnavailableError as refused:
            self._refuse(refused)
        else:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._door.leave(self._peer)
        self._relax()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads on; counts what comes before a head is whole. After a refusal nothing counts."""
        if self._refused:
            return
        self._received += len(data)
        if self._timer is None:
            self._expect()
        super().data_received(data)
        if self._in_head and self._received - self._request_from > HEAD_LIMIT:
            self._refuse(HeadTooLargeError(f"The headers must have at most {HEAD_LIMIT} bytes together."))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole."""
        super().on_message_complete()
        self._in_head, self._request_from = True, self._received
        self._relax()

    def send_400_response(self, msg: str) -> None:
        """What can't be read as HTTP."""
        self._refuse(InvalidRequestError("This is no HTTP request."))

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect(self) -> None:
        """From now on a request must come."""
        self._began = self.loop.time()
        self._timer = self.loop.call_later(self._request_s, self._look)

    def _relax(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Ends a request that is late; looks again when it may be."""
        came = self._received - self._request_from
        left = self._began + self._request_s + came / SLOWEST - self.loop.time()
        if self.flow.read_paused or (self._in_head and self._is_answering):
            self._began, left = self.loop.time(), self._request_s  # it waits for the server
        if left > 0:
            self._timer = self.loop.call_later(left, self._look)
        elif self._in_head and came == 0:
            self.transport.close()  # nothing was asked
        else:
            part = "headers" if self._in_head else "body"
            rule = f"{self._request_s:g} s, and one more for each KiB"
            self._refuse(RequestTimeoutError(f"The {part} came too slowly: a request may take {rule}."))

    def _refuse(self, problem: ProblemError) -> None:
        """Ends the connection, with an answer unless one has begun."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        self._relax()
        begun = self._is_answering if self._in_head else self.cycle.response_started
        if not begun:
            about = None if self._in_head else self.cycle.scope["state"].get("request_id")
            self.transport.write(_answer(problem, about))
        if begun or self._received == 0:
            self.transport.close()
        else:
            self._linger()
        self.loop.call_later(LINGER_S, self.transport.abort)

    def _linger(self) -> None:
        """Says no more and reads on, until the client has ended: an answer is lost where input is unread."""
        if self._is_answering:  # whom nobody hears any more
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        self.transport.write_eof()


def _answer(problem: ProblemError, request_id: str | None) -> bytes:
    """The bytes of a refusal that ends its connection."""
    body = json.dumps(problem_document(problem, request_id)).encode()
    headers = [
        (b"connection", b"close"),
        (b"content-type", b"application/problem+json"),
        (b"content-length", b"%d" % len(body)),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
        *RAW_HEADERS,
    ]
    status = b"HTTP/1.1 %d %s\r\n" % (problem.status, HTTPStatus(problem.status).phrase.encode())
    return b"".join([status, *(b"%s: %s\r\n" % header for header in headers), b"\r\n", body])
