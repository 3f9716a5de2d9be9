"""The HTTP API: an ASGI application made by ``create_app``, run by ``service.api.server``."""

from __future__ import annotations

from service.api.app import create_app

__all__ = ["create_app"]
