"""The application: routes, who may ask, and how errors are told. The console joins it in `console`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from fastapi_offline import FastAPIOffline

from rmqspark import __version__
from rmqspark.admin import console
from rmqspark.admin.access import reader
from rmqspark.admin.desk import Desk
from rmqspark.admin.gate import Gate
from rmqspark.admin.problems import ANY_PROBLEM, tell_problems
from rmqspark.admin.routes import (
    audit,
    cluster,
    dead_letters,
    groups,
    health,
    messages,
    metrics,
    queries,
    topics,
    transactions,
)
from rmqspark.admin.routes.parameters import known_parameters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from rmqspark.admin.config import AdminConfig
    from rmqspark.clock import Clock
    from rmqspark.settings import SettingInfo

PREFIX = "/api/v1"
_ROUTERS = tuple(
    each.router for each in (cluster, topics, groups, messages, transactions, dead_letters, queries, audit)
)


def make_app(
    config: AdminConfig, namesrv: str | None, clock: Clock, known_settings: Mapping[str, SettingInfo]
) -> FastAPI:
    """An application that closes its desk when it ends; the arguments are `Desk.opened`'s."""
    desk = Desk.opened(config, namesrv, clock, known_settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPIOffline(  # /docs brings what it shows: who has no public network reads it, too
        title="rmqspark",
        version=__version__,
        description="Administration of a RocketMQ protocol message queue made for Spark. Offsets are strings, "
        "times RFC 3339 in UTC, errors application/problem+json with a code and a hint.",
        lifespan=lifespan,
        redoc_url=None,
        responses=ANY_PROBLEM,
    )
    app.state.config, app.state.desk = config, desk
    tell_problems(app)
    for router in _ROUTERS:
        app.include_router(router, prefix=PREFIX, dependencies=[Depends(reader), Depends(known_parameters)])
    app.include_router(metrics.router, dependencies=[Depends(reader)])
    app.include_router(health.router)
    app.add_middleware(Gate, config=config)
    if config.console:
        console.attach(app, desk)
    return app
