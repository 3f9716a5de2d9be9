"""The whole system in one place: embedded server, API, workers, and the record of where it runs."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from types import FrameType

from service.api.keys import load_keys
from service.api.security import check_bind
from service.api.server import serve
from service.cli.running import Running, owning, write_running
from service.embedded import EmbeddedServer, StartStoppedError
from service.processes import dying_with_parent
from service.settings import Settings

log = logging.getLogger(__name__)

STOP_WORKERS_WITHIN_S = 15.0


class AddressError(RuntimeError):
    """The address to listen on can't be had."""


class StopSignal:
    """Whether SIGINT or SIGTERM came. Nothing is raised: an exception in a handler can land in a finaliser,
    where Python ignores it."""

    def __init__(self) -> None:
        self.came = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True


def run_system(settings: Settings, announce: Callable[[Running], None]) -> None:
    """Runs until SIGINT or SIGTERM. AlreadyRunningError when another one has the data folder."""
    check_bind(settings, load_keys(settings.api_key_file))
    with contextlib.suppress(StartStoppedError):
        run_parts(settings, announce, StopSignal())


def run_parts(settings: Settings, announce: Callable[[Running], None], stop: StopSignal) -> None:
    """Starts the parts one after the other, and stops them in reverse."""
    data = settings.data_dir.resolve()
    with contextlib.ExitStack() as parts:
        parts.enter_context(owning(data))
        listening = parts.enter_context(bind(settings))
        embedded = None
        if "redis_url" not in settings.model_fields_set:
            embedded = parts.enter_context(EmbeddedServer(data, lambda: stop.came))
        redis_url = embedded.url if embedded else settings.redis_url
        here = settings.model_copy(update={"data_dir": data, "redis_url": redis_url})
        host, port = listening.getsockname()[:2]
        running = Running(f"http://{f'[{host}]' if ':' in host else host}:{port}", redis_url, os.getpid())
        if stop.came:
            return
        workers = parts.enter_context(Workers(here))

        def ready() -> None:
            write_running(data, running)
            announce(running)

        async def watch() -> None:
            if stop.came:  # just before uvicorn began to listen to signals, which it raises again at its end
                signal.raise_signal(signal.SIGTERM)
                return
            if embedded is not None and (code := embedded.revive()) is not None:
                log.error("the embedded server ended with code %d; it is started again", code)
            if (code := workers.revive()) is not None:
                log.error("the supervisor of the workers ended with code %d; it is started again", code)

        serve(here, [listening], ready, watch)


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


class Workers:
    """The supervisor of this machine's workers, from entry to exit; at the end they give their jobs back."""

    def __init__(self, settings: Settings) -> None:
        self._environment = {
            **os.environ,
            "GRADMILL_REDIS_URL": settings.redis_url,
            "GRADMILL_DATA_DIR": str(settings.data_dir),
        }

    def __enter__(self) -> Workers:
        self._supervisor = self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._supervisor.terminate()
        try:
            self._supervisor.wait(STOP_WORKERS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()

    def revive(self) -> int | None:
        """Starts a supervisor that has died again; its exit code, None if it lives."""
        code = self._supervisor.poll()
        if code is not None:
            self._supervisor = self._start()
        return code

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "workers.supervisor"],
            stdin=subprocess.DEVNULL,
            env=self._environment,
            process_group=0,
            preexec_fn=dying_with_parent(signal.SIGTERM),  # noqa: PLW1509  (it touches no lock of a thread)
        )
