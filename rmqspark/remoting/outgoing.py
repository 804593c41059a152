"""What a server's connection has to send: gathered over a turn of the loop, written in as few system calls as it takes.

Short pieces are joined, long ones written as they are, uncopied; what lies in a file goes from there (`uncopied.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rmqspark.pacing import LARGE_BYTES, stop_pacing
from rmqspark.protocol.commands.command import Buffer
from rmqspark.protocol.commands.file_region import in_memory
from rmqspark.remoting.uncopied import send_uncopied

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from rmqspark.protocol.commands.file_region import Part

_WRITE_AT_ONCE_BYTES = 256 * 1024
_JOIN_BELOW_BYTES = 16 * 1024


class Outgoing:
    """The queue of one connection. True while something waits in it."""

    __slots__ = ("_bytes", "_has_sent_large", "_lies_in_files", "_parts")

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._bytes = 0
        self._lies_in_files = False
        self._has_sent_large = False

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def is_much(self) -> bool:
        """True if it should not wait for the end of the turn. What lies in files might not be there any more then."""
        return self._bytes > _WRITE_AT_ONCE_BYTES or self._lies_in_files

    def add(self, buffer: Buffer) -> None:
        self._parts.append(buffer)
        self._bytes += len(buffer)

    def add_all(self, parts: Sequence[Part]) -> None:
        self._parts += parts
        self._bytes += sum(map(len, parts))
        self._lies_in_files = self._lies_in_files or not all([isinstance(part, Buffer) for part in parts])

    def clear(self) -> None:
        self._parts, self._bytes, self._lies_in_files = [], 0, False

    def write_to(self, transport: asyncio.Transport, *, encrypts: bool) -> None:
        """Writes all of it; what the client does not take waits in the transport. Raises OSError and StoreError where
        a file that an answer lies in cannot be read: a head that has promised its bytes may have gone out then."""
        parts, size, lies_in_files = self._parts, self._bytes, self._lies_in_files
        self.clear()
        if size <= _JOIN_BELOW_BYTES and not lies_in_files:
            short = cast("list[Buffer]", parts)
            transport.write(short[0] if len(short) == 1 else b"".join(short))
            return
        if size >= LARGE_BYTES and not self._has_sent_large:
            self._has_sent_large = True
            stop_pacing(transport.get_extra_info("socket"))
        joined = _joined(parts)
        left = send_uncopied(transport, joined) if lies_in_files and not encrypts else in_memory(joined)
        if left:
            transport.writelines(left)


def _joined(parts: list[Part]) -> list[Part]:
    """The same bytes in fewer pieces: a system call prefers a few long ones, and long ones are not copied."""
    pieces: list[Part] = []
    short: list[Buffer] = []
    for part in parts:
        if isinstance(part, Buffer) and len(part) < _JOIN_BELOW_BYTES:
            short.append(part)
            continue
        if short:
            pieces.append(b"".join(short))
            short = []
        pieces.append(part)
    if short:
        pieces.append(b"".join(short))
    return pieces
