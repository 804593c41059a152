"""A server's connection to another server: a broker's to its name servers."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, cast

import structlog

from rmqspark.errors import ConnectionLost, DecodeError, NotSupported, RequestTimeout, Unreachable
from rmqspark.protocol.commands.command import MAX_RESPONSE_HEADER_BYTES, decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request, encode_response
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.protocol.faults import to_response
from rmqspark.remoting.access import OPEN
from rmqspark.remoting.address import no_host_name, parse_address
from rmqspark.remoting.pending import PendingCalls
from rmqspark.remoting.response import Response
from rmqspark.remoting.signing import signer_of
from rmqspark.remoting.tls.contexts import certified_host, client_context
from rmqspark.remoting.tls.words import handshake_failed, is_of_tls, told
from rmqspark.remoting.unanswered import unanswered

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec

    from rmqspark.protocol.commands.command import Command
    from rmqspark.remoting.access import Access, Tls
    from rmqspark.remoting.reply import Body, Buffer

_MAX_CALLS_UNDER_WAY = 1_024
_FAREWELL_MS = 1_000
_SILENT_S = 10.0

log = structlog.get_logger("rmqspark.remoting")


class AsyncConnection(asyncio.Protocol):
    """Made by `open`. Requests of the other side are answered as not supported, oneway ones ignored."""

    def __init__(self, address: str, access: Access) -> None:
        self.address = address
        self._access = access
        self._sign = signer_of(access)
        self._frames = FrameDecoder()
        self._calls = PendingCalls(address, _MAX_CALLS_UNDER_WAY)
        self._transport: asyncio.Transport | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answered = False  # by anything at all
        self._is_ours = False  # the end of it
        self._heard_s = 0.0  # loop time

    @classmethod
    async def open(cls, address: str, *, timeout_ms: int = 3_000, access: Access = OPEN) -> Self:
        """Connects. Raises Unreachable naming the address; with `access.tls` also HandshakeFailed, and InvalidArgument
        for files that cannot be used."""
        host, port = parse_address(address)
        loop = asyncio.get_running_loop()
        encryption = _encryption(access.tls, host)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, connection = await loop.create_connection(lambda: cls(address, access), host, port, **encryption)
        except (OSError, TimeoutError) as error:
            if access.tls is not None and is_of_tls(error):
                raise handshake_failed(error, address, access.tls.names) from error
            reason = getattr(error, "strerror", None) or str(error) or "no answer in time"
            raise Unreachable(f"Nothing answers at {address}: {reason}.", address=address) from error
        except ValueError as error:  # asyncio encodes the host's name before it asks for it
            raise no_host_name(host, address) from error
        return connection

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    async def call(
        self, code: int, header: msgspec.Struct | None = None, body: Body = b"", *, timeout_ms: int
    ) -> Response:
        """Sends a request and waits for its answer, whatever its code. Raises RequestTimeout or ConnectionLost."""

        def send(opaque: int) -> None:
            self._write(encode_request(code, opaque, header, body, sign=self._sign))

        try:
            return await self._calls.call(send, code, timeout_ms)
        except RequestTimeout:
            self._leave_if_silent()
            raise

    def _leave_if_silent(self) -> None:
        """What is between may have forgotten the connection: as `BlockingConnection` does."""
        if self._transport is not None and asyncio.get_running_loop().time() - self._heard_s >= _SILENT_S:
            self._transport.abort()

    def send_oneway(self, code: int, header: msgspec.Struct | None = None, body: Body = b"") -> None:
        """Sends a request that nobody answers. Raises ConnectionLost."""
        opaque = self._calls.next_opaque()
        self._write(encode_request(code, opaque, header, body, oneway=True, sign=self._sign))

    async def close(self, *, timeout_ms: int = _FAREWELL_MS) -> None:
        """Sends what is queued and ends the connection; what still waits gets ConnectionLost. The other side may take
        so long over what it is sent, then the rest is dropped."""
        self._is_ours = True
        if self._transport is not None:
            self._transport.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self.wait_closed()
        if self._transport is not None:
            self._transport.abort()
            await self.wait_closed()

    async def wait_closed(self) -> None:
        """Returns when the connection has ended, by whichever side."""
        await asyncio.shield(self._ended)

    # --- called by the transport -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._heard_s = asyncio.get_running_loop().time()

    def data_received(self, data: bytes) -> None:
        self._answered = True
        self._heard_s = asyncio.get_running_loop().time()
        try:
            for frame in self._frames.feed(data):
                raw = split_frame(frame, max_header_bytes=MAX_RESPONSE_HEADER_BYTES)
                self._take(decode_command(raw), raw.body)
        except DecodeError as error:
            log.warning("connection broken", address=self.address, reason=str(error))
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._calls.fail(self._reason(exc))
        self._ended.set_result(None)

    def _reason(self, error: Exception | None) -> str:
        """Why it has ended, as far as it can be known."""
        if isinstance(error, ssl.SSLError):
            return told(error)
        if not (self._answered or self._is_ours):
            return unanswered(self._access.tls)
        return str(error or "")

    def _take(self, command: Command, body: memoryview) -> None:
        if command.is_response:
            self._calls.deliver(Response.of(command, body))
        elif not command.is_oneway:
            code, remark = to_response(NotSupported(f"request type {command.code} not supported"))
            self._write(encode_response(command.opaque, code, remark=remark))

    def _write(self, buffers: Sequence[Buffer]) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLost(f"The connection to {self.address} has ended.", address=self.address)
        self._transport.writelines(buffers)


def _encryption(tls: Tls | None, host: str) -> dict[str, Any]:
    """What the event loop is told of it."""
    if tls is None:
        return {}
    return {"ssl": client_context(tls), "server_hostname": certified_host(host)}
