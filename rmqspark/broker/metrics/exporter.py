"""The port that RocketMQ's brokers open for Prometheus: GET /metrics over HTTP, and nothing else.

It is on the broker's own loop, as the figures are. What a client sends is read up to the end of its header, 8 KiB in
some seconds at most, and not looked at but for its first line; few clients are there at a time, and each is closed when
it is answered. RocketMQ: OpenTelemetry's PrometheusHttpServer.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

import structlog

from rmqspark.errors import Busy, InvalidArgument, PortInUse
from rmqspark.remoting.address import format_address
from rmqspark.remoting.server import check_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_MOST_HEADER_BYTES: Final = 8 * 1024
_MOST_CLIENTS: Final = 16
_ANSWER_S: Final = 30

log = structlog.get_logger("rmqspark.broker")


class Exporter:
    """Listens while its `async with` block runs. `port` 0 takes any free one."""

    def __init__(
        self,
        text: Callable[[], AsyncIterator[bytes]],
        *,
        host: str,
        port: int,
        insecure: bool,
        request_timeout_ms: int = 5_000,
    ) -> None:
        """`text` is what /metrics answers, in pieces. Raises InvalidArgument for an address beyond this machine, unless
        `insecure`."""
        check_host(host, insecure)
        self._text = text
        self._host = host
        self._wanted_port = port
        self._request_timeout_ms = request_timeout_ms
        self._clients: dict[asyncio.Task[None], None] = {}

    async def __aenter__(self) -> Self:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            self._server = await asyncio.start_server(
                self._accept, self._host, self._wanted_port, family=family, limit=_MOST_HEADER_BYTES
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(self._host, self._wanted_port, "--metrics-prom-exporter-port") from error
            where = format_address(self._host, self._wanted_port)
            raise InvalidArgument(f"Metrics cannot be exported on {where}: {error.strerror}.") from error
        log.info("metrics can be scraped", url=f"http://{self.address}/metrics")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    @property
    def address(self) -> str:
        """host:port."""
        return format_address(self._host, self._server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= _MOST_CLIENTS:
            writer.transport.abort()
            return
        client = asyncio.current_task()
        assert client is not None
        self._clients[client] = None
        try:
            async with asyncio.timeout(self._request_timeout_ms / 1000):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(_ANSWER_S):
                await self._answer(head.split(b"\r\n", 1)[0], writer)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # it is of no more use
        finally:
            del self._clients[client]
            writer.transport.abort()  # what was drained is with the kernel

    async def _answer(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            await _write(writer, "405 Method Not Allowed", b"Only GET.\n")
        elif path != b"/metrics":
            await _write(writer, "404 Not Found", b"There is only /metrics.\n")
        else:
            try:
                text = b"".join([piece async for piece in self._text()])
            except Busy as error:
                await _write(writer, "503 Service Unavailable", f"{error}\n".encode())
            else:
                await _write(writer, "200 OK", text, with_body=method == b"GET")


async def _write(writer: asyncio.StreamWriter, status: str, body: bytes, *, with_body: bool = True) -> None:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + (body if with_body else b""))
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
