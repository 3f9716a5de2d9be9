"""The API as a process on a free port of its own; prints its address when it answers."""

from __future__ import annotations

import socket

from service.api.server import serve
from service.settings import Settings

if __name__ == "__main__":
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    serve(Settings(), [listening], lambda: print(address, flush=True))
