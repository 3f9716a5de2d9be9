"""HTTP as uvicorn reads it, but no request head is gathered beyond a limit: httptools itself knows none."""

from __future__ import annotations

import json

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.problems import problem_document
from service.errors import HeadTooLargeError

HEAD_LIMIT = 256 * 1024  # bytes; what is smaller reaches the guard, which allows less and says more


class LimitedProtocol(HttpToolsProtocol):
    """A connection that ends where a request head goes on and on."""

    _in_head = True
    _head = 0

    def data_received(self, data: bytes) -> None:
        """Counts what comes before a head is whole."""
        super().data_received(data)
        if not self._in_head:
            return
        self._head += len(data)
        if self._head > HEAD_LIMIT and not self.transport.is_closing():
            self.transport.write(_refusal())
            self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head, self._head = True, 0

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._in_head = False
        super().on_headers_complete()


def _refusal() -> bytes:
    problem = HeadTooLargeError(f"The headers must have at most {HEAD_LIMIT} bytes together.")
    body = json.dumps(problem_document(problem, None)).encode()
    head = (
        "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
        f"content-type: application/problem+json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
