"""Runs the API with uvicorn, and lets go of open streams at once when it shall stop."""

from __future__ import annotations

import gc
import logging
import resource
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType

import uvicorn

from service.api.app import create_app
from service.api.backend import Backend
from service.api.keys import load_keys
from service.api.protocol import Door, LimitedProtocol
from service.api.security import check_bind
from service.settings import Settings

WATCH_S = 1
GRACE_S = 2  # for requests that are being answered when the server shall stop
FILES_BESIDE = 200  # that are open for other things than connections
COLLECT_AFTER = 50_000  # objects; each collection looks at all requests in flight

log = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """Ends the streams as soon as a signal arrives, so that nothing is left to wait for."""

    def __init__(self, config: uvicorn.Config, backend: Backend, on_ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._backend = backend
        self._on_ready = on_ready

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Notes a signal. A second one hurries nothing: the end is near, and work would be lost."""
        self._captured_signals.append(sig)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens, then says so."""
        await super().startup(sockets)
        if self._on_ready is not None and self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams before it waits for connections."""
        self._backend.end_streams()
        await super().shutdown(sockets)


def make_server(
    settings: Settings,
    on_ready: Callable[[], None] | None = None,
    watch: Callable[[], Awaitable[None]] | None = None,
) -> Server:
    """A server that is not yet running. BindError when its address would let everyone in."""
    check_bind(settings, load_keys(settings.api_key_file))
    app = create_app(settings)
    protocol = partial(LimitedProtocol, door=make_door(settings), request_s=settings.request_s)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=protocol,  # type: ignore[arg-type]  # which it only calls
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
        lifespan="on",
        callback_notify=watch,
        timeout_notify=WATCH_S,
    )
    return Server(config, app.state.backend, on_ready)


def serve(
    settings: Settings,
    sockets: list[socket.socket] | None = None,
    on_ready: Callable[[], None] | None = None,
    watch: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM. ``sockets`` are listening ones to take instead of host and port.

    ``watch`` is called about once a second.

    Raises BindError and KeyFileError for settings that must not be served. SystemExit when it can't start:
    Redis is away, or its data are of a newer release; the log says which.
    """
    server = make_server(settings, on_ready, watch)
    settle_garbage_collector()
    server.run(sockets=sockets)


def make_door(settings: Settings) -> Door:
    """As many connections as the settings allow, or as the files that this process may open."""
    most = _files(settings.connection_limit + FILES_BESIDE) - FILES_BESIDE
    if most < settings.connection_limit:
        log.warning("only %d connections are taken: the process may open no more files", most)
    return Door(most, min(settings.address_limit, most))


def _files(wanted: int) -> int:
    """Lets the process open so many files, or fewer where it may not; how many."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (wanted if each == resource.RLIM_INFINITY else each for each in limits)
    if soft < wanted:
        soft = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, limits[1]))
    return min(soft, wanted)


def settle_garbage_collector() -> None:
    """Takes what the process has loaded out of every later collection, and makes those seldom.

    With Python's own thresholds they cost a fifth of the time that accepting a job takes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
