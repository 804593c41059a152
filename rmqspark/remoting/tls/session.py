"""TLS as a value machine: bytes of one side in, bytes for the other out. It never touches a socket.

Both ends go by it: the blocking client, whose reader and writer are two threads (it guards the session by a lock, for
OpenSSL takes one call at a time), and the server's event loop. What OpenSSL wants to send by itself while it reads, as
for new keys (RFC 8446, 4.6.3), lies in `to_send` and goes out before what is encrypted next: that is when it is due.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rmqspark.remoting.reply import Buffer

TLS_HANDSHAKE: Final = 0x16
"""The first byte of a connection that begins TLS: the type of its first record."""
_MOST_UNASKED_BYTES: Final = 64 * 1024  # that OpenSSL wants to send by itself: a few dozen are usual


class TlsSession:
    """One connection. All methods raise ssl.SSLError where the other side does not keep to TLS, or is not trusted."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, host: str | None = None) -> None:
        """`host` is the name or address that the server's certificate has to be made out to, for a client."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side, host)
        self.ended = False
        """The other side has said that nothing more comes."""

    def feed(self, received: Buffer) -> None:
        """Takes what came from the other side."""
        self._incoming.write(received)

    def shake_hands(self) -> bool:
        """Goes on with the handshake; True once it is done. Either way there may be something to send."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def read_into(self, buffer: memoryview) -> int:
        """Decrypts as much as has come and fits. Less than fits means that there is no more."""
        at = 0
        with suppress(ssl.SSLWantReadError):
            while at < len(buffer):
                count = int(self._tls.read(len(buffer) - at, buffer[at:]))
                if count == 0:
                    self.ended = True
                    break
                at += count
        if self._outgoing.pending > _MOST_UNASKED_BYTES:
            raise ssl.SSLError("the other side asks for new keys over and over")
        return at

    def encrypt(self, plain: Buffer) -> bytes:
        """What is to be sent for it, behind all that was to be sent before."""
        view = memoryview(plain).cast("B")
        while view:
            view = view[self._tls.write(view) :]
        return self._outgoing.read()

    def to_send(self) -> bytes:
        """What the other side is to get besides: of the handshake, of new keys, or why it was given up."""
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """What says that nothing more comes, behind all that was to be sent before."""
        with suppress(ssl.SSLError):  # it wants to hear the same from the other side; nobody waits for that
            self._tls.unwrap()
        return self._outgoing.read()
