"""A connection of which nobody knows yet whether it speaks TLS: its first byte decides (RocketMQ's TlsModeHandler).

That byte is read alone. A frame without TLS begins with the highest byte of its length, which is 0 or 1; TLS with the
type of its first record, 22. Then the connection itself takes over, or TLS does between it and its socket: what comes
next is read by whoever it is for, and a connection without TLS costs no more than where TLS is off.

A newcomer counts as any connection, with the time it has for its first frame, and holds nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from rmqspark.remoting.tls.session import TLS_HANDSHAKE
from rmqspark.remoting.tls.transport import TlsTransport

if TYPE_CHECKING:
    from rmqspark.remoting.server_connection import ServerConnection
    from rmqspark.remoting.tls.serving import ServerTls


class Newcomer(asyncio.BufferedProtocol):
    """Stands before a ServerConnection until its first byte has come."""

    def __init__(self, connection: ServerConnection, tls: ServerTls, encrypted: memoryview) -> None:
        """`encrypted` is where all connections with TLS receive: what is there is handled at once."""
        self._connection = connection
        self._tls = tls
        self._encrypted = encrypted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connection.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._encrypted[:1]

    def buffer_updated(self, nbytes: int) -> None:
        if self._transport.is_closing():
            return
        if self._encrypted[0] == TLS_HANDSHAKE:
            session = self._tls.session()
            encrypting = TlsTransport(self._transport, self._connection, session, self._encrypted)
            self._transport.set_protocol(encrypting)
            self._connection.move_to(encrypting)
            encrypting.buffer_updated(nbytes)
        elif self._tls.enforcing:
            self._connection.close("the client does without TLS, which is demanded here (tls_server_mode)")
        else:
            self._transport.set_protocol(self._connection)
            self._connection.get_buffer(nbytes)[:1] = self._encrypted[:1]
            self._connection.buffer_updated(nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)
