"""Bytes both ways as they come, encrypted or not: for what is no frames, between servers.

With TLS all that is written is encrypted at once and handed to the socket's transport, as `tls/transport.py` does and
for the same reason: what is unsent lies in one place, whose bounds are known.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from rmqspark.remoting.address import no_host_name, parse_address
from rmqspark.remoting.tls.contexts import certified_host, client_context
from rmqspark.remoting.tls.session import TlsSession
from rmqspark.remoting.tls.words import handshake_failed, told

if TYPE_CHECKING:
    from rmqspark.remoting.access import Tls, TlsNames
    from rmqspark.remoting.reply import Buffer

_AT_ONCE_BYTES: Final = 128 * 1024  # encrypted, or decrypted
_ENDED: Final = "it hung up"


class Stream:
    """One connection; one task reads and one writes. Methods that wait raise OSError where it breaks."""

    last_words_s: ClassVar = 10.0
    """How long `close` waits for the other side to take what is unsent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ahead = b""  # read, and not handed out yet
        self._session: TlsSession | None = None

    async def peek(self) -> int:
        """The first byte, which is read all the same. Raises EOFError where none comes."""
        if not self._ahead:
            self._ahead = await self._some(1)
        return self._ahead[0]

    async def secure(self, session: TlsSession) -> None:
        """Shakes hands: all is encrypted from here on. Raises ssl.SSLError, or ConnectionError for a sudden end."""
        session.feed(self._ahead)
        self._ahead = b""
        while True:
            try:
                is_done = session.shake_hands()
            finally:
                self._put(session.to_send())  # be it why it was given up
            if is_done:
                break
            received = await self._reader.read(_AT_ONCE_BYTES)
            if not received:
                raise ConnectionResetError
            session.feed(received)
        self._session = session

    async def read(self, size: int) -> bytes:
        """Some of what comes next, `size` at most; b"" at the end."""
        if self._ahead:
            ahead, self._ahead = self._ahead[:size], self._ahead[size:]
            return ahead
        return await self._reader.read(size) if self._session is None else await self._decrypted(self._session, size)

    async def read_exactly(self, size: int) -> bytes:
        """Raises EOFError where it ends before."""
        read = b""
        while len(read) < size:
            read += await self._some(size - len(read))
        return read

    async def _some(self, size: int) -> bytes:
        read = await self.read(size)
        if not read:
            raise EOFError(_ENDED)
        return read

    async def _decrypted(self, session: TlsSession, size: int) -> bytes:
        buffer = memoryview(bytearray(min(size, _AT_ONCE_BYTES)))
        while True:
            try:
                count = session.read_into(buffer)
            except ssl.SSLError as error:
                raise ConnectionError(told(error)) from error
            if count or session.ended:
                return bytes(buffer[:count])
            self._put(session.to_send())
            received = await self._reader.read(_AT_ONCE_BYTES)
            if not received:
                return b""
            session.feed(received)

    def write(self, data: Buffer) -> None:
        """Queues it. Raises ConnectionError where nobody is there any more."""
        try:
            self._put(data if self._session is None else self._session.encrypt(data))
        except ssl.SSLError as error:
            raise ConnectionError(told(error)) from error

    def _put(self, data: Buffer) -> None:
        """uvloop takes nothing for a connection that is gone, and calls that a bug of whoever tries."""
        if self._writer.is_closing():
            raise ConnectionResetError(_ENDED)
        self._writer.write(data)

    async def drain(self) -> None:
        """Returns when not too much is unsent."""
        await self._writer.drain()

    def bound_unsent(self, most_bytes: int) -> None:
        """How much `drain` leaves unsent."""
        self._writer.transport.set_write_buffer_limits(most_bytes)

    def close(self) -> None:
        """Sends what is queued, and ends; what the other side has not taken in time is let go."""
        if self._session is not None:
            with suppress(ssl.SSLError, ConnectionError):
                self._put(self._session.farewell())
        transport = self._writer.transport
        if transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(self.last_words_s, transport.abort)
        transport.close()


async def open_stream(address: str, tls: Tls | None, *, timeout_s: float, limit: int) -> Stream:
    """Connects to a server, with TLS where it is given; `limit` is what is read ahead. Raises OSError, or Unreachable
    for what can be no host, and for TLS that does not come about."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _opened(address, tls, limit)
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"{address} does not answer in time") from error


async def _opened(address: str, tls: Tls | None, limit: int) -> Stream:
    host, port = parse_address(address)
    try:
        session = None
        if tls is not None:
            session = TlsSession(client_context(tls), server_side=False, host=certified_host(host))
        stream = Stream(*await asyncio.open_connection(host, port, limit=limit))
    except (ValueError, TypeError) as error:  # asyncio and TLS look at the host's name before they ask for it
        raise no_host_name(host, address) from error
    if session is not None and tls is not None:
        await _secured(stream, session, address, tls.names)
    return stream


async def _secured(stream: Stream, session: TlsSession, address: str, names: TlsNames) -> None:
    try:
        await stream.secure(session)
    except BaseException as error:  # be it that the time is over
        stream.close()
        if isinstance(error, OSError):
            raise handshake_failed(error, address, names) from error
        raise
