"""Whole frames from a blocking source of bytes, the large ones received straight into memory that is used again.

Small frames come many to a read and are copied out of one chunk. A large frame is received into a buffer of its own,
which grows with the bytes that come and is handed out as it is. Buffers return to use when nobody has a view of them
any more (fresh memory is dear: the kernel has to find and clear every page of it).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from rmqspark.errors import FrameError
from rmqspark.protocol.commands.frame import MAX_FRAME_BYTES, out_of_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK_BYTES = 64 * 1024
_FIRST_LARGE_BYTES = 256 * 1024
_KEPT_BUFFERS = 4
_LENGTH = Struct(">i")


class BufferPool:
    """A few large buffers, each lent out until its last view is gone."""

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size: int) -> bytearray | None:
        """A buffer of at least that size that nobody looks at, if there is one."""
        for buffer in self._buffers:
            if len(buffer) >= size and _unseen(buffer):
                return buffer
        return None

    def keep(self, buffer: bytearray) -> None:
        """Takes a new buffer into the pool; the smallest makes room for it."""
        self._buffers.append(buffer)
        if len(self._buffers) > _KEPT_BUFFERS:
            self._buffers.remove(min(self._buffers, key=len))

    def clear(self) -> None:
        """Forgets all buffers; those lent out live as long as their views."""
        self._buffers.clear()


class FrameReader:
    """`read` blocks for the next frame. `receive_into` is a socket's recv_into: 0 is the end of the stream."""

    def __init__(self, receive_into: Callable[[memoryview], int], max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._receive_into = receive_into
        self._max_length = max_frame_bytes - _LENGTH.size
        self._chunk = memoryview(bytearray(_CHUNK_BYTES))
        self._at = 0
        self._end = 0
        self._pool = BufferPool()

    def read(self) -> memoryview | None:
        """The next frame without its length, in memory that nobody else will write to; None at the end of the stream.

        Raises FrameError for a length out of bounds or an end within a frame.
        """
        if not self._have(_LENGTH.size):
            return None
        (length,) = _LENGTH.unpack_from(self._chunk, self._at)
        if not 4 <= length <= self._max_length:
            raise out_of_bounds(length, self._max_length)
        self._at += _LENGTH.size
        if length > _CHUNK_BYTES:
            return self._read_large(length)
        if not self._have(length):
            raise FrameError("the stream ends within a frame")
        self._at += length
        return memoryview(bytes(self._chunk[self._at - length : self._at]))

    def rest(self) -> None:
        """Gives up the memory kept for large frames; for when none has come for a while."""
        self._pool.clear()

    def close(self) -> None:
        """Gives up all memory; nothing is read any more."""
        self._pool.clear()
        self._chunk = memoryview(b"")

    def _have(self, count: int) -> bool:
        """Receives until `count` bytes lie in the chunk. False if the stream ends before their first byte."""
        if self._end - self._at >= count:
            return True
        if self._at + count > _CHUNK_BYTES or self._at == self._end:
            rest = self._end - self._at
            self._chunk[:rest] = self._chunk[self._at : self._end]
            self._at, self._end = 0, rest
        while self._end - self._at < count:
            received = self._receive_into(self._chunk[self._end :])
            if received == 0 and self._end == self._at:
                return False
            if received == 0:
                raise FrameError("the stream ends within a frame")
            self._end += received
        return True

    def _read_large(self, length: int) -> memoryview:
        used = self._pool.take(length)
        buffer = bytearray(min(length, _FIRST_LARGE_BYTES)) if used is None else used
        have = min(self._end - self._at, len(buffer))
        buffer[:have] = self._chunk[self._at : self._at + have]
        self._at += have
        while have < length:
            if have == len(buffer):
                buffer = _grown(buffer, min(length, 2 * len(buffer)))
            received = self._receive_into(memoryview(buffer)[have : min(length, len(buffer))])
            if received == 0:
                raise FrameError("the stream ends within a frame")
            have += received
        if used is None:
            self._pool.keep(buffer)
        return memoryview(buffer)[:length]


def _grown(buffer: bytearray, size: int) -> bytearray:
    larger = bytearray(size)
    larger[: len(buffer)] = buffer
    return larger


def _unseen(buffer: bytearray) -> bool:
    """True if no view of the buffer is alive: only then does Python let it change its length."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
