"""TLS between a server's connection and its socket: to the connection it is a transport, to the socket's a protocol.

The event loops have the like. With theirs nobody could tell how much of the answers is still unsent, for part of it
waits in a transport that they keep to themselves; and that is what the bounds on memory go by (`unsent.py`). Here all
that is encrypted is handed on at once, so what the socket's transport holds is all there is. Nothing decrypted is kept
either: while the connection pauses, what has come stays as it came, and nothing more is read.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final

from rmqspark.remoting.tls.words import told

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.remoting.reply import Buffer
    from rmqspark.remoting.server_connection import ServerConnection
    from rmqspark.remoting.tls.session import TlsSession

ENCRYPTED_BYTES: Final = 32 * 1024
"""At once, either way: OpenSSL's own buffers grow with it, and keep what they have as long as the connection lasts."""


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The server's end of a connection that has begun to speak TLS."""

    def __init__(
        self, transport: asyncio.Transport, connection: ServerConnection, session: TlsSession, encrypted: memoryview
    ) -> None:
        """`encrypted` is where it receives, together with others: what is there is handled at once."""
        super().__init__()
        self._transport = transport
        self._connection = connection
        self._session = session
        self._encrypted = encrypted
        self._is_agreed = False  # the handshake is done
        self._is_refused = False  # it has failed, and why is on its way to the client
        self._pauses = False  # the connection wants to be handed nothing

    # --- to the socket's transport -----------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._encrypted

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_closing():
            return
        self._session.feed(self._encrypted[:nbytes])
        self._hand_on()

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def _hand_on(self) -> None:
        """What has come and can be decrypted, as long as the connection takes it."""
        try:
            if self._is_agreed or self._shake_hands():
                self._decrypt()
        except ssl.SSLError as error:
            self._refuse(error)
        else:
            self._send(self._session.to_send())

    def _shake_hands(self) -> bool:
        self._is_agreed = self._session.shake_hands()
        return self._is_agreed

    def _decrypt(self) -> None:
        while not self._pauses and not self.is_closing():
            buffer = self._connection.get_buffer(-1)
            count = self._session.read_into(buffer)
            if count:
                self._connection.buffer_updated(count)
            if self._session.ended:
                self.close()
            if count < len(buffer):
                break

    def _refuse(self, error: ssl.SSLError) -> None:
        """In the handshake nothing else waits to be sent, so the client is told why; later it may take nothing."""
        if not self._is_agreed:
            self._is_refused = True
            self._send(self._session.to_send())
        self._connection.close(f"TLS: {told(error)}")

    def _send(self, encrypted: bytes) -> None:
        if encrypted and not self.is_closing():
            self._transport.write(encrypted)
            self._connection.note_unsent()

    # --- to the connection -------------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        if self.is_closing():
            return
        pieces = [self._session.encrypt(piece) for data in list_of_data for piece in _pieces(data)]
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)

    def pause_reading(self) -> None:
        if not self._pauses:
            self._pauses = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """What has come before is handed on in a later turn: the connection may be in the middle of something."""
        if self._pauses:
            self._pauses = False
            self._transport.resume_reading()
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if not self.is_closing():
            self._hand_on()

    def close(self) -> None:
        if not self.is_closing():
            self._send(self._session.farewell())
            self._transport.close()

    def abort(self) -> None:
        if self._is_refused:
            self._transport.close()
        else:
            self._transport.abort()


def _pieces(data: Buffer) -> Iterable[Buffer]:
    if len(data) <= ENCRYPTED_BYTES:
        return (data,)
    view = memoryview(data)
    return (view[at : at + ENCRYPTED_BYTES] for at in range(0, len(view), ENCRYPTED_BYTES))
