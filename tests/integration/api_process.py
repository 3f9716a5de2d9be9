"""The API as a process, on the port named or on a free one; prints its address when it answers."""

from __future__ import annotations

import socket
import sys

from service.api.server import serve
from service.settings import Settings

if __name__ == "__main__":
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    serve(Settings(), [listening], lambda: print(address, flush=True))
