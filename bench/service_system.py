"""The service under load: its processes, their CPU time and memory, and connections that cost little.

Run as a program, ``python -m bench.service_system api`` is the API and ``… <lane>`` a worker whose jobs do
nothing. Both listen, and speak, on loopback only.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from service.embedded import EmbeddedServer

ROOT = Path(__file__).parents[1]
TICKS = os.sysconf("SC_CLK_TCK")
STOP_WITHIN_S = 15


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process so far, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid: int) -> float:
    """The memory of a process that is in RAM."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class System:
    """Server and API, from entry to exit; workers where a part asks for them."""

    def __init__(self, data: Path) -> None:
        self.redis = EmbeddedServer(data)
        self._data = data
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> System:
        self.redis.start()
        self._environment = {
            **os.environ,
            "GRADMILL_REDIS_URL": self.redis.url,
            "GRADMILL_DATA_DIR": str(self._data),
            "GRADMILL_QUEUED_LIMIT": "0",
            "GRADMILL_THREADS": "1",
        }
        api = self._start("api", stdout=subprocess.PIPE)
        assert api.stdout is not None
        self.port = int(api.stdout.readline())
        self.api_pid = api.pid
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(STOP_WITHIN_S)
        self.redis.stop()

    def start_worker(self, lane: str) -> None:
        self._start(lane)

    def _start(self, what: str, **options: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "bench.service_system", what]
        process = subprocess.Popen(command, env=self._environment, cwd=ROOT, **options)
        self._processes.append(process)
        return process


class Connection(asyncio.Protocol):
    """One kept connection: a request at a time, its whole answer back."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int) -> Connection:
        _, made = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the API closed the connection"))

    def send(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Status and body of the answer to a request, whose bytes are given whole."""
        assert self._transport is not None
        self._received.clear()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = bytes(self._received).partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) >= length and self._answer is not None and not self._answer.done():
            self._answer.set_result((int(head[9:12]), body))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of an HTTP request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def serve_api() -> None:
    from service.api.server import serve
    from service.settings import Settings

    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    serve(Settings(), [listening], lambda: print(listening.getsockname()[1], flush=True))


def work(lane: str) -> None:
    from service.settings import Settings
    from workers.handlers import MODULES
    from workers.lane import run_lane

    MODULES["train"] = MODULES["sample"] = "bench.service_nothing"
    run_lane(lane, Settings())


if __name__ == "__main__":
    serve_api() if sys.argv[1] == "api" else work(sys.argv[1])
