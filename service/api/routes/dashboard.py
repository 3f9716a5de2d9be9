"""The dashboard's files, and its one page for every path that is a page there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import APIRouter
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

STATIC = Path(__file__).parents[2] / "static"
PAGES = ("/", "/jobs", "/jobs/{rest:path}", "/compile", "/price", "/models")
NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Gradmill</title></head>
<body><main><h1>Gradmill</h1>
<p>The service runs, but its dashboard is not built. In a checkout, build it with <code>make web</code>.</p>
<p>The API: <a href="/openapi.json">/openapi.json</a>, <a href="/v1/jobs">/v1/jobs</a>.</p>
</main></body></html>
"""


def page(status: int = 200) -> Response:
    """The one page, which finds out by itself what to show."""
    index = STATIC / "index.html"
    if not index.is_file():
        return HTMLResponse(NOT_BUILT, status)
    return FileResponse(index, status, media_type="text/html", headers={"Cache-Control": "no-cache"})


def dashboard_router() -> APIRouter:
    """A route for each page of the dashboard."""
    router = APIRouter(include_in_schema=False)

    async def known_page() -> Response:
        return page()

    for path in PAGES:
        router.add_api_route(path, known_page, methods=["GET"])
    return router


class _Build(StaticFiles):
    """The other files of the build; nothing of it is found before it is built."""

    async def check_config(self) -> None:
        """Nothing to check: the folder may appear later, when the dashboard is built."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file. Where there is none, browsers get the page, which says so, and programs a problem."""
        try:
            if await asyncio.to_thread(self._is_nowhere, path):
                raise HTTPException(404)
            return await super().get_response(path, scope)
        except HTTPException as error:
            if error.status_code == 404 and _is_for_a_reader(scope):
                return page(404)
            raise

    def _is_nowhere(self, path: str) -> bool:
        try:
            return self.lookup_path(path)[1] is None
        except (OSError, ValueError):  # too long for a file's name, or with a zero byte
            return True


def _is_for_a_reader(scope: Scope) -> bool:
    if scope["method"] not in ("GET", "HEAD") or scope["path"].startswith("/v1/"):
        return False
    return "text/html" in Headers(scope=scope).get("accept", "")


def fallback() -> ASGIApp:
    """What answers where no route does."""
    return _Build(directory=STATIC, check_dir=False)
