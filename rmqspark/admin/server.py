"""Serving the application: one port, until it is told to stop. The web server is uvicorn."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

import anyio
import uvicorn

from rmqspark.admin.gate import MOST_BODY_BYTES
from rmqspark.admin.http_connection import MOST_CONNECTIONS, MOST_HEADER_BYTES, HttpConnection
from rmqspark.admin.mishaps import Mishaps
from rmqspark.errors import RmqError
from rmqspark.remoting.address import cannot_listen, format_address

if TYPE_CHECKING:
    from fastapi import FastAPI

    from rmqspark.admin.config import AdminConfig

_LAST_WORDS_S: Final = 3  # for answers that are under way
_IDLE_S: Final = 120


@asynccontextmanager
async def serving(app: FastAPI, config: AdminConfig) -> AsyncIterator[str]:
    """Serves while the block runs; gives the URL to ask at. PortInUse; InvalidArgument for another address that cannot
    be listened on; RmqError where the application does not start."""
    mishaps = Mishaps()
    asyncio.get_running_loop().set_exception_handler(mishaps.tell)
    with _listening(config) as listener, mishaps.of_libraries():
        settings = uvicorn.Config(
            app,
            log_config=None,
            log_level="error",  # of what is no HTTP there is a warning each: strangers would fill the log
            access_log=False,
            server_header=False,
            proxy_headers=False,
            http=HttpConnection,
            h11_max_incomplete_event_size=MOST_HEADER_BYTES,
            ws_max_size=MOST_BODY_BYTES,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=_LAST_WORDS_S,
        )
        server = _Server(settings)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            while not (server.started or server.should_exit):  # noqa: ASYNC110 - uvicorn tells it in no other way
                await anyio.sleep(0.005)
            if server.started:
                try:
                    yield _url(config, listener)
                finally:
                    server.should_exit = True
        if not server.started:
            raise RmqError("REST and console do not start.", hint="The line above says why.")


class _Server(uvicorn.Server):
    """Signals are `cli.servers.serving`'s, and so is the end of the process."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:  # the application has failed at it
            self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _listening(config: AdminConfig) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in config.bind_address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((config.bind_address, config.port))
        except OSError as error:
            raise cannot_listen(error, config.bind_address, config.port, "--admin-port") from error
        yield listener


def _url(config: AdminConfig, listener: socket.socket) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.bind_address, config.bind_address)
    return f"http://{format_address(host, listener.getsockname()[1])}{config.base_path}"
