"""The blocking client's end: what `BlockingConnection` reads from and writes to instead of its socket.

One thread reads and another writes at a time, and OpenSSL takes one call at a time: so the session has a lock, which is
held while bytes are encrypted or decrypted and never while the socket is waited for. Only who writes takes from the
session what is to be sent, and the connection lets one thread write at a time, so all leaves in the order in which it
was encrypted.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rmqspark.errors import Unreachable
from rmqspark.remoting.address import no_host_name, parse_address
from rmqspark.remoting.tls.contexts import certified_host, client_context
from rmqspark.remoting.tls.session import TlsSession
from rmqspark.remoting.tls.words import handshake_failed, is_alert, told
from rmqspark.remoting.unanswered import GaveUp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.clock import Clock
    from rmqspark.remoting.access import Tls, TlsNames
    from rmqspark.remoting.frame_writer import FrameWriter
    from rmqspark.remoting.reply import Buffer

_RECEIVED_BYTES: Final = 128 * 1024  # at once, encrypted
_ENCRYPTED_BYTES: Final = 128 * 1024  # at once: a larger body is encrypted while its beginning is on the way


class TlsChannel:
    """A connected socket in blocking mode, encrypted. Made by `open_channel`."""

    def __init__(self, connected: socket.socket, session: TlsSession) -> None:
        self._socket = connected
        self._session = session
        self._lock = threading.Lock()
        self._failure: ConnectionError | None = None  # why nothing more can be encrypted or decrypted
        self._received = memoryview(bytearray(_RECEIVED_BYTES))

    def recv_into(self, buffer: memoryview) -> int:
        """As of a socket: 0 is the end. Raises what the socket does, and ConnectionError in words."""
        while True:
            count = self._decrypt_into(buffer)
            if count or self._session.ended:
                return count
            received = self._socket.recv_into(self._received)
            if not received:
                return 0
            with self._lock:
                self._session.feed(self._received[:received])

    def _decrypt_into(self, buffer: memoryview) -> int:
        with self._lock:
            try:
                return self._session.read_into(buffer)
            except ssl.SSLError as error:
                self._failure = GaveUp(told(error)) if is_alert(error) else ConnectionError(told(error))
                raise self._failure from error

    def encrypt(self, plain: Buffer) -> bytes:
        """What is to be sent for it next. One thread at a time. Raises ConnectionError if the other side gave up."""
        with self._lock:
            if self._failure is not None:  # OpenSSL would only say that it is over
                raise self._failure
            return self._session.encrypt(plain)

    def say_goodbye(self) -> None:
        """If the system takes it at once. One thread at a time, behind all that was encrypted."""
        with self._lock:
            farewell = self._session.farewell()
        with suppress(OSError):
            self._socket.sendmsg([farewell], (), socket.MSG_DONTWAIT)


class TlsWriter:
    """Writes whole frames as `FrameWriter` does, with one difference: what is encrypted has to go out, so a frame is
    begun as soon as none is unfinished. One whose time is over then goes out before the next frame."""

    def __init__(self, socket_writer: FrameWriter, channel: TlsChannel) -> None:
        self._socket_writer = socket_writer
        self._channel = channel
        self._plain: deque[memoryview] = deque()  # of the frame that was begun
        self._encrypted: list[memoryview] = []  # the same, and before `_plain`

    def write(self, frame: Sequence[Buffer], deadline_ms: int) -> bool:
        """False if the peer did not take the buffers in time. Raises OSError as `FrameWriter.write`."""
        if not self._finish(deadline_ms):
            return False
        self._plain.extend(memoryview(buffer).cast("B") for buffer in frame if buffer)
        if self._finish(deadline_ms):
            return True
        self._plain = deque(memoryview(bytes(part)) for part in self._plain)  # its owner may write to the memory again
        return False

    def part(self) -> None:
        """Lets the other side know that nothing more comes and nothing was cut off, unless a frame is unfinished."""
        if not (self._encrypted or self._plain):
            self._channel.say_goodbye()

    def _finish(self, deadline_ms: int) -> bool:
        while self._encrypted or self._plain:
            if not self._encrypted:
                self._encrypted = [memoryview(self._channel.encrypt(self._next_piece()))]
            self._encrypted = self._socket_writer.offer(self._encrypted, deadline_ms)
            if self._encrypted:
                return False
        return True

    def _next_piece(self) -> Buffer:
        """Small buffers are joined: each piece costs records of its own."""
        pieces, room = [], _ENCRYPTED_BYTES
        while self._plain and room:
            part = self._plain.popleft()
            if len(part) > room:
                self._plain.appendleft(part[room:])
            pieces.append(part[:room])
            room -= len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def client_session(address: str, tls: Tls) -> TlsSession:
    """The client's end, before anybody is called. Raises InvalidArgument for an address that is none, or for files, and
    Unreachable for what cannot be a host."""
    host, _ = parse_address(address)
    context = client_context(tls)
    try:
        return TlsSession(context, server_side=False, host=certified_host(host))
    except (ValueError, TypeError) as error:  # Python looks at the name before it asks for it
        raise no_host_name(host, address) from error


def open_channel(
    connected: socket.socket, address: str, session: TlsSession, deadline_ms: int, clock: Clock, names: TlsNames
) -> TlsChannel:
    """Shakes hands, within the time there is. Raises Unreachable or HandshakeFailed, in the words of `names`; the
    socket stays open then."""
    try:
        _shake_hands(connected, session, deadline_ms, clock)
    except TimeoutError as error:
        raise Unreachable(f"No TLS with {address}: no end of the handshake in time.", address=address) from error
    except OSError as error:
        with suppress(OSError):
            connected.send(session.to_send())  # why
        raise handshake_failed(error, address, names) from error
    return TlsChannel(connected, session)


def _shake_hands(connected: socket.socket, session: TlsSession, deadline_ms: int, clock: Clock) -> None:
    is_done = False
    while not is_done:
        is_done = session.shake_hands()
        connected.settimeout(_left_s(deadline_ms, clock))
        connected.sendall(session.to_send())
        if not is_done:
            received = connected.recv(_RECEIVED_BYTES)
            if not received:
                raise ConnectionResetError
            session.feed(received)
    connected.settimeout(None)


def _left_s(deadline_ms: int, clock: Clock) -> float:
    left_ms = deadline_ms - clock.monotonic_ms()
    if left_ms <= 0:
        raise TimeoutError
    return left_ms / 1000
