"""What the tests of TLS share: servers that speak it, clients that go by it, and a raw client's socket with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqspark.clock import SystemClock
from rmqspark.remoting.access import Access, Tls
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.remoting.tls.channel import TlsChannel, client_session, open_channel
from rmqspark.remoting.tls.settings import TlsServing

from .conftest import PATIENCE_S, RawClient

if TYPE_CHECKING:
    import socket

    from tests.certificates import Authority


def serving(authority: Authority, **others: Any) -> TlsServing:
    """A server with a certificate for this machine."""
    return TlsServing(*authority.issue(), **others)


def trusting(authority: Authority, **others: Any) -> Access:
    """A client that trusts an authority."""
    return Access(tls=Tls(authority.path, **others))


def connect(address: str, access: Access) -> BlockingConnection:
    return BlockingConnection(address, connect_timeout_ms=1000 * PATIENCE_S, access=access)


class EncryptedSocket:
    """As much of a socket as raw clients use, for two threads at a time, which Python's SSLSocket is not."""

    def __init__(self, connected: socket.socket, channel: TlsChannel) -> None:
        self._socket = connected
        self._channel = channel

    def sendall(self, data: bytes) -> None:
        self._socket.sendall(self._channel.encrypt(data))

    def recv(self, count: int) -> bytes:
        buffer = memoryview(bytearray(min(count, 1 << 16)))
        return bytes(buffer[: self._channel.recv_into(buffer)])

    def close(self) -> None:
        self._socket.close()


class EncryptedRawClient(RawClient):
    """A raw client, hands shaken."""

    def __init__(self, address: str, tls: Tls, **options: Any) -> None:
        super().__init__(address, **options)
        clock = SystemClock()
        deadline_ms = clock.monotonic_ms() + 1000 * PATIENCE_S
        channel = open_channel(self.socket, address, client_session(address, tls), deadline_ms, clock, tls.names)
        self.socket.settimeout(PATIENCE_S)
        self.socket = EncryptedSocket(self.socket, channel)
