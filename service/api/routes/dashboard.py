"""The dashboard's files, and its one page for every path that is a page there."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles

STATIC = Path(__file__).parents[2] / "static"
PAGES = ("/", "/jobs", "/jobs/{rest:path}", "/models")
NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Gradmill</title></head>
<body><main><h1>Gradmill</h1>
<p>The service runs, but its dashboard is not built. In a checkout, build it with <code>make web</code>.</p>
<p>The API: <a href="/openapi.json">/openapi.json</a>, <a href="/v1/jobs">/v1/jobs</a>.</p>
</main></body></html>
"""


def dashboard_router() -> APIRouter:
    """A route for each page of the dashboard; the page finds out by itself what to show."""
    router = APIRouter(include_in_schema=False)

    async def page() -> Response:
        index = STATIC / "index.html"
        if not index.is_file():
            return HTMLResponse(NOT_BUILT)
        return FileResponse(index, media_type="text/html", headers={"Cache-Control": "no-cache"})

    for path in PAGES:
        router.add_api_route(path, page, methods=["GET"])
    return router


class _Build(StaticFiles):
    async def check_config(self) -> None:
        """Nothing to check: the folder may appear later, when the dashboard is built."""


def static_files() -> StaticFiles:
    """Everything else of the build; nothing of it is found before it is built."""
    return _Build(directory=STATIC, check_dir=False)
