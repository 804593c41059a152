"""How the console gets into the application: NiceGUI behind REST's routes, one function for all pages, sign-in, and the
watch that runs while the application does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.requests import HTTPConnection
from fastapi.responses import PlainTextResponse, RedirectResponse
from nicegui import Client, core, ui
from starlette.routing import Match, Mount

from rmqspark.admin.console.addresses import with_query
from rmqspark.admin.console.frame import Frame
from rmqspark.admin.console.pages import ALL_PAGES, MISSING, Page
from rmqspark.admin.console.pages.missing import show_missing
from rmqspark.admin.console.preferences import Preferences
from rmqspark.admin.console.sessions import COOKIE, Sessions
from rmqspark.admin.console.sign_in import add_sign_in
from rmqspark.admin.console.strangers import Strangers, saying_little
from rmqspark.admin.console.style import FAVICON, head_style
from rmqspark.admin.console.visits import Visit
from rmqspark.admin.console.watch import Watch
from rmqspark.admin.gate import path_of
from rmqspark.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

    from rmqspark.admin.desk import Desk

_TITLE: Final = "rmqspark"
_RECONNECT_S: Final = 30.0  # a page whose connection was lost finds its state again within
_LONGEST_BUILD_S: Final = 60.0  # what takes long is read behind a skeleton; a machine that is slow is no error
_OURS_NOT: Final = ("/api/", "/docs", "/redoc", "/openapi.json", "/healthz", "/readyz", "/metrics")


def attach(app: FastAPI, desk: Desk) -> None:
    watch, sessions, strangers = Watch(desk, _is_watched), Sessions(desk.config, desk.cluster.clock), Strangers()
    add_sign_in(app, sessions)
    _forget_former_application()
    ui.run_with(
        app,
        title=_TITLE,
        favicon=FAVICON,
        dark=None,
        language="en-US",
        tailwind=False,
        reconnect_timeout=_RECONNECT_S,
        show_welcome_message=False,
    )
    core.sio.on("log", _hear_nothing)
    core.app.config.quasar_config["loadingBar"]["skipHijack"] = True  # a bar for requests that there are none of
    app.router.routes[-1] = _ConsoleMount(sessions, strangers)
    for page in (*ALL_PAGES, MISSING):
        ui.page(page.path, response_timeout=_LONGEST_BUILD_S)(_builder(page, desk, watch, sessions, strangers))
    _run_beside(app, watch.run)


class _ConsoleMount(Mount):
    """Everything but what is REST's: there, what is not found is an error as REST tells them. Whoever is not signed in
    gets no more than there is room for, which keeps nobody out who is."""

    def __init__(self, sessions: Sessions, strangers: Strangers) -> None:
        super().__init__("/", app=core.app)
        self._sessions = sessions
        self._strangers = strangers

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_stranger = self._sessions.role(HTTPConnection(scope).cookies.get(COOKIE)) is None
        if is_stranger and scope["type"] == "http" and self._strangers.are_too_many():
            later = PlainTextResponse("Too many pages at a time.", 503, headers={"Retry-After": "60"})
            await later(scope, receive, send)
        else:
            await super().handle(scope, saying_little(receive) if is_stranger else receive, send)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.NONE, {}) if path_of(scope).startswith(_OURS_NOT) else super().matches(scope)


def _builder(
    page: Page, desk: Desk, watch: Watch, sessions: Sessions, strangers: Strangers
) -> Callable[[Request], Awaitable[Response | None]]:
    async def build(request: Request) -> Response | None:
        visit = _visit(request, desk, watch, sessions)
        if visit.role is None:
            strangers.add(ui.context.client.id)
        if visit.role is None and not page.is_open:
            target = with_query(visit.path, visit.given)
            return RedirectResponse(visit.href("/login", next=None if target == "/" else target))
        ui.add_head_html(head_style(visit.preferences.theme))
        frame = Frame(visit, page.section, page.title(visit))
        try:
            with frame.body:
                await page.build(frame)
        except NotFound as error:
            await show_missing(frame, error)
        return None

    return build


def _visit(request: Request, desk: Desk, watch: Watch, sessions: Sessions) -> Visit:
    prefix = request.scope.get("root_path", "")
    return Visit(
        desk=desk,
        watch=watch,
        sessions=sessions,
        cookie=request.cookies.get(COOKIE),
        address=request.client.host if request.client else "unknown",
        origin=f"{request.url.scheme}://{request.url.netloc}",
        prefix=prefix,
        path=quote(path_of(request.scope)),
        params=dict(request.path_params),
        given={name: value for name, value in request.query_params.items() if value},
        preferences=Preferences.of(request.cookies),
    )


def _hear_nothing(*_: object) -> None:
    """NiceGUI writes into the log what browsers say for it, whoever that is, and as often as they like (S18)."""


def _is_watched() -> bool:
    return any(client.has_socket_connection for client in list(Client.instances.values()))


def _forget_former_application() -> None:
    """NiceGUI's own application is there once a process; an application before this one has set it up already."""
    core.app.user_middleware.clear()
    core.app.middleware_stack = None


def _run_beside(app: FastAPI, work: Callable[[], Awaitable[Any]]) -> None:
    around = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[Any]:
        async with around(application) as state:
            task = asyncio.ensure_future(work())
            try:
                yield state
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    app.router.lifespan_context = lifespan
