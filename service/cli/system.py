"""The whole system in one place: embedded server, API, workers, and the record of where it runs."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from service.api.keys import load_keys
from service.api.security import check_bind
from service.api.server import serve
from service.cli.running import Running, owning, write_running
from service.embedded import EmbeddedServer
from service.processes import dying_with_parent
from service.settings import Settings

STOP_WORKERS_WITHIN_S = 15.0


class AddressError(RuntimeError):
    """The address to listen on can't be had."""


def run_system(settings: Settings, announce: Callable[[Running], None]) -> None:
    """Runs until SIGINT or SIGTERM. AlreadyRunningError when another one has the data folder."""
    check_bind(settings, load_keys(settings.api_key_file))
    # uvicorn raises the signal that stopped it once more at its end: by then it is only a message.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    data = settings.data_dir.resolve()
    with owning(data), bind(settings) as listening, redis_for(settings, data) as redis_url:
        here = settings.model_copy(update={"data_dir": data, "redis_url": redis_url})
        host, port = listening.getsockname()[:2]
        running = Running(f"http://{f'[{host}]' if ':' in host else host}:{port}", redis_url, os.getpid())

        def ready() -> None:
            write_running(data, running)
            announce(running)

        with workers_for(here):
            serve(here, [listening], ready)


@contextlib.contextmanager
def redis_for(settings: Settings, data: Path) -> Iterator[str]:
    """The Redis that the settings name, or an embedded one when they name none."""
    if "redis_url" in settings.model_fields_set:
        yield settings.redis_url
    else:
        with EmbeddedServer(data) as server:
            yield server.url


def bind(settings: Settings) -> socket.socket:
    """A socket on the settings' address. AddressError when it can't be had."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise AddressError(f"can't listen on {settings.host}: {error.strerror}") from error
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        where = f"{settings.host}:{settings.port}"
        raise AddressError(f"can't listen on {where}: {error.strerror}; choose another --port") from error
    return listening


@contextlib.contextmanager
def workers_for(settings: Settings) -> Iterator[None]:
    """The supervisor of this machine's workers; at the end they give their jobs back."""
    environment = {
        **os.environ,
        "GRADMILL_REDIS_URL": settings.redis_url,
        "GRADMILL_DATA_DIR": str(settings.data_dir),
    }
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "workers.supervisor"],
        stdin=subprocess.DEVNULL,
        env=environment,
        process_group=0,
        preexec_fn=dying_with_parent(signal.SIGTERM),  # noqa: PLW1509  (this process has one thread)
    )
    try:
        yield
    finally:
        supervisor.terminate()
        try:
            supervisor.wait(STOP_WORKERS_WITHIN_S)
        except subprocess.TimeoutExpired:
            supervisor.kill()
            supervisor.wait()
