"""HEAD is GET without the body, on every path."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _BodyBegins(Exception):  # noqa: N818 - no error: it ends the work that only a body would need
    """The head of the answer was sent."""


class Head:
    """ASGI middleware that answers HEAD as GET would begin to; streams and downloads end there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on everything else."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.body":
                await send({"type": "http.response.body", "body": b""})
                raise _BodyBegins
            await send(message)

        try:
            await self._app({**scope, "method": "GET"}, receive, send_head)
        except _BodyBegins:
            return
