"""A load generator's end of a connection: a socket with as little around it as there can be, or one that encrypts."""

from __future__ import annotations

import socket
from errno import EMFILE, ENFILE
from typing import TYPE_CHECKING, Final

from rmqspark.clock import SystemClock
from rmqspark.errors import Unreachable
from rmqspark.remoting.address import parse_address

if TYPE_CHECKING:
    from rmqspark.remoting.access import Tls

TIMEOUT_S: Final = 10
_RECEIVE_BYTES: Final = 1 << 14
_TOO_MANY: Final = (EMFILE, ENFILE)


class Wire:
    """Connects. Raises Unreachable where nobody answers, or no more files may be open here."""

    def __init__(self, address: str) -> None:
        try:
            self.socket = socket.create_connection(parse_address(address), TIMEOUT_S)
        except OSError as error:
            raise _not_connected(address, error) from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """What has come of what the other side said, which may be nothing; None when no more comes."""
        return self.socket.recv(_RECEIVE_BYTES) or None

    def close(self) -> None:
        self.socket.close()


class EncryptedWire(Wire):
    """Raises HandshakeFailed, too, and InvalidArgument for files that cannot be used."""

    def __init__(self, address: str, tls: Tls) -> None:
        from rmqspark.remoting.tls.channel import client_session, open_channel

        self._session = client_session(address, tls)
        super().__init__(address)
        clock = SystemClock()
        try:
            open_channel(self.socket, address, self._session, clock.monotonic_ms() + 1000 * TIMEOUT_S, clock, tls.names)
        except BaseException:  # Ctrl-C, too: nobody else knows of the socket yet
            self.close()
            raise
        self.socket.settimeout(TIMEOUT_S)
        self._plain = memoryview(bytearray(4 * _RECEIVE_BYTES))

    def send(self, data: bytes) -> None:
        self.socket.sendall(self._session.encrypt(data))

    def receive(self) -> bytes | None:
        chunk = self.socket.recv(_RECEIVE_BYTES)
        if not chunk:
            return None
        self._session.feed(chunk)
        count = self._session.read_into(self._plain)  # with the rest of a record, which has as many bytes at most
        return None if self._session.ended else bytes(self._plain[:count])


def _not_connected(address: str, error: OSError) -> Unreachable:
    """The system does not say to whom."""
    hint = "Ask for fewer --connections, or allow more open files: ulimit -n." if error.errno in _TOO_MANY else ""
    return Unreachable(f"No connection to {address}: {error.strerror or error}.", address=address, hint=hint)


def wire_to(address: str, tls: Tls | None) -> Wire:
    """Encrypted where there is a Tls."""
    return Wire(address) if tls is None else EncryptedWire(address, tls)
