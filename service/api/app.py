"""The application: routes, problems and guard around one backend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI

from service.api.backend import make_backend
from service.api.ending import end
from service.api.head import Head
from service.api.openapi import add_openapi
from service.api.problems import add_problem_handlers
from service.api.query import check_query
from service.api.routes import (
    aliases,
    artifacts,
    blobs,
    checkpoints,
    compile,
    completions,
    dashboard,
    events,
    files,
    jobs,
    keys,
    logs,
    metrics,
    models,
    ops,
    price,
)
from service.api.security import Guard
from service.api.submit import Options
from service.api.sweeper import sweep_forever
from service.jobs.schema import check_schema
from service.settings import Settings
from service.versions import ENGINE_VERSION

ROUTERS = (
    jobs,
    events,
    metrics,
    logs,
    checkpoints,
    artifacts,
    files,
    models,
    aliases,
    completions,
    compile,
    price,
    keys,
    blobs,
    ops,
)
DESCRIPTION = "Train, sample and more on a tensor engine whose every stage can be read."


def create_app(settings: Settings) -> FastAPI:
    """The ASGI application. Connections open when it starts."""
    backend = make_backend(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        await asyncio.to_thread(check_schema, backend.waker.redis)
        backend.hub.start()
        backend.changes.start()
        sweeper = asyncio.create_task(sweep_forever(backend))
        try:
            yield
        finally:
            await end([sweeper])
            await backend.close()

    app = FastAPI(
        title="Gradmill",
        version=ENGINE_VERSION,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.backend = backend
    for module in ROUTERS:
        app.include_router(module.router, dependencies=[Depends(check_query)])
    app.include_router(dashboard.dashboard_router())
    app.router.default = dashboard.fallback()  # no mount: it would take every path, whatever the method
    add_problem_handlers(app)
    add_openapi(
        app,
        Options,
        [aliases.AliasRequest, completions.CompletionRequest, price.PriceRequest, keys.KeyRequest],
    )
    app.add_middleware(Head)
    app.add_middleware(Guard, settings=settings, keys=backend.keys, meter=backend.meter)
    return app
