"""What a server's connection has to send: gathered over a turn of the loop, written in as few system calls as it takes.

Short pieces are joined, long ones written as they are, uncopied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.pacing import LARGE_BYTES, stop_pacing

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from rmqspark.remoting.reply import Buffer

_WRITE_AT_ONCE_BYTES = 256 * 1024
_JOIN_BELOW_BYTES = 16 * 1024


class Outgoing:
    """The queue of one connection. True while something waits in it."""

    __slots__ = ("_buffers", "_bytes", "_has_sent_large")

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._bytes = 0
        self._has_sent_large = False

    def __bool__(self) -> bool:
        return bool(self._buffers)

    @property
    def is_much(self) -> bool:
        """True if it should not wait for the end of the turn."""
        return self._bytes > _WRITE_AT_ONCE_BYTES

    def add(self, buffer: Buffer) -> None:
        self._buffers.append(buffer)
        self._bytes += len(buffer)

    def add_all(self, buffers: Sequence[Buffer]) -> None:
        self._buffers += buffers
        self._bytes += sum(map(len, buffers))

    def clear(self) -> None:
        self._buffers, self._bytes = [], 0

    def write_to(self, transport: asyncio.Transport) -> None:
        """Writes all of it; what the client does not take waits in the transport."""
        buffers, size = self._buffers, self._bytes
        self.clear()
        if size <= _JOIN_BELOW_BYTES:
            transport.write(buffers[0] if len(buffers) == 1 else b"".join(buffers))
            return
        if size >= LARGE_BYTES and not self._has_sent_large:
            self._has_sent_large = True
            stop_pacing(transport.get_extra_info("socket"))
        transport.writelines(_joined(buffers))


def _joined(buffers: list[Buffer]) -> list[Buffer]:
    """The same bytes in fewer pieces: a system call prefers a few long ones, and long ones are not copied."""
    pieces: list[Buffer] = []
    short: list[Buffer] = []
    for buffer in buffers:
        if len(buffer) < _JOIN_BELOW_BYTES:
            short.append(buffer)
            continue
        if short:
            pieces.append(b"".join(short))
            short = []
        pieces.append(buffer)
    if short:
        pieces.append(b"".join(short))
    return pieces
