"""A TCP relay in front of a Redis server's unix socket, whose connections break in the ways networks do."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

NOTHING_LINGERS = struct.pack("ii", 1, 0)  # close() sends a reset


class Relay:
    """``url`` is where it listens; use as a context manager."""

    def __init__(self, redis_url: str) -> None:
        self._target = redis_url.removeprefix("unix://")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        self._passing = threading.Event()
        self._passing.set()
        self._loses_replies = False
        self._refuses = False
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.reset()
        _shut(self._listener)
        self.heal()

    def silence(self) -> None:
        """Nothing passes, and nobody is told: a black hole. What was sent arrives when it is healed."""
        self._passing.clear()

    def lose_replies(self) -> None:
        """Requests arrive and are obeyed; their replies are lost."""
        self._loses_replies = True

    def reset(self) -> None:
        """Resets every connection, also those that come until it is healed."""
        self._refuses = True
        with self._lock:
            ends, self._ends = self._ends, set()
        for end in ends:
            _reset(end)

    def heal(self) -> None:
        """Everything passes again."""
        self._loses_replies = self._refuses = False
        self._passing.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                if self._refuses:
                    raise ConnectionRefusedError
                server.connect(self._target)
            except OSError:
                _reset(client)
                server.close()
                continue
            with self._lock:
                self._ends |= {client, server}
            threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, replies: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self._passing.wait()
                if not (replies and self._loses_replies):
                    sink.sendall(data)
        with self._lock:
            self._ends -= {source, sink}
        _shut(source)
        _shut(sink)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOTHING_LINGERS)
        end.shutdown(socket.SHUT_RD)
    end.close()
