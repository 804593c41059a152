"""What a client with TLS has not taken yet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from rmqspark.remoting.access import Tls
from rmqspark.remoting.router import Router
from rmqspark.remoting.server import RemotingServer
from rmqspark.remoting.server_connection import ServerConnection
from rmqspark.remoting.tls.contexts import client_context, server_context
from rmqspark.remoting.tls.session import TlsSession
from rmqspark.remoting.tls.settings import TlsServing
from rmqspark.remoting.tls.transport import ENCRYPTED_BYTES, TlsTransport

if TYPE_CHECKING:
    from tests.certificates import Authority


class Stuck(asyncio.Transport):
    """The other side takes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._unsent = 0

    def write(self, data: Any) -> None:
        self._unsent += len(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self._unsent

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def test_what_tls_says_by_itself_is_counted(authority: Authority) -> None:
    """Of its handshake, or of new keys, which a client may ask for again and again, and read none of it."""
    client = TlsSession(client_context(Tls(authority.path)), server_side=False, host="localhost")
    client.shake_hands()
    hello = client.to_send()
    session = TlsSession(server_context(TlsServing(*authority.issue())), server_side=True)

    async def scene() -> None:
        async with RemotingServer(Router([]), host="127.0.0.1", port=0) as server:
            connection, wire = ServerConnection(server, 1), Stuck()
            connection.connection_made(wire)
            encrypting = TlsTransport(wire, connection, session, memoryview(bytearray(ENCRYPTED_BYTES)))
            connection.move_to(encrypting)
            encrypting.get_buffer(-1)[: len(hello)] = hello
            encrypting.buffer_updated(len(hello))
            assert server.unsent.total_bytes == wire.get_write_buffer_size() > 0
            connection.connection_lost(None)
            assert server.unsent.total_bytes == 0

    asyncio.run(scene())
